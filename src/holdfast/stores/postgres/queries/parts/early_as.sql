-- early_as(moment): the state in which a job that is not due at this moment is shown; NULL: it is due, or does not wait.
CASE WHEN state = 'available' AND available_at > moment THEN CASE WHEN awaits IS NULL THEN 'scheduled' ELSE 'blocked' END END
