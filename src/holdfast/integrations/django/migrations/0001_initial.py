"""The permissions, and the schema of the store, as of release 0.1."""

from typing import ClassVar

from django.db import migrations, models

from holdfast.integrations.django.models import PERMITTED
from holdfast.integrations.django.schema import StoreSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    """Not atomic: the store makes its tables by its own connection, which would wait for Django's transaction."""

    atomic = False
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="Jobs",
            fields=[("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))],
            options={
                "managed": False,
                "default_permissions": (),
                "permissions": PERMITTED,
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
        StoreSchema(sqlite=8, postgresql=9),
    ]
