"""What it costs to be seen: metrics, traces, and people who watch the dashboard of a large store."""
