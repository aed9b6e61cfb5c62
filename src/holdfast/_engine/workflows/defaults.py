"""What holds for a workflow whose code does not say otherwise."""

MOST_NODES = 10_000
RETENTION = "7d"
