"""What the shop keeps."""

from typing import Any

from django.db import models


class Order(models.Model):
    """An order, and how often it was shipped."""

    number: Any = models.IntegerField(unique=True)
    shipped: Any = models.IntegerField(default=0)

    class Meta:
        """Django's description of the model."""

        app_label = "shop"
