"""The analysis of a git repository, step by step: `task` adds it to an App."""
