"""Jobs in one SQLite file on a local disk, shared by all processes of one machine."""
