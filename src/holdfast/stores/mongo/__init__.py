"""Jobs in MongoDB."""
