-- shown(): the state of a job as people read it.
iif(state = 'available' AND available_at > :wall, iif(awaits IS NULL, 'scheduled', 'blocked'), state)
