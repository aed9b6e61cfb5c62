"""A Django project with a shop: an order, and tasks about it."""
