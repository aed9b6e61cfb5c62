"""The broker: a store served over HTTP, to workers and producers without its credentials."""
