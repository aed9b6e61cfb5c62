"""Jobs behind a broker: the store port over HTTP, for workers and producers without credentials of the database."""
