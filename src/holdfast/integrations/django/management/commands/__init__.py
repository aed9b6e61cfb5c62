"""Each module is one command."""
