"""What users may be permitted: a model without a table, because Django keeps permissions with models."""

from typing import Final

from django.db import models

PERMITTED: Final = (
    ("view", "Can look at jobs, queues and workers"),
    ("operate", "Can cancel, retry, enqueue, pause and drain"),
    ("delete", "Can delete jobs, purge queues and reset rows and limits"),
    ("payload", "Can read payloads, results and messages of errors"),
)


class Jobs(models.Model):  # type: ignore[misc]
    """The jobs of the store, as far as permissions go."""

    class Meta:
        """Django's description of the model."""

        app_label = "holdfast"
        managed = False
        default_permissions = ()
        permissions = PERMITTED
        verbose_name = "job"
        verbose_name_plural = "jobs"
