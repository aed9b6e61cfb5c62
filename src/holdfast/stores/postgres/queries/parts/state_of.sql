-- state_of(job): the state of an active job; one that its lease has started is running, although its row is claimed.
CASE
    WHEN -- include has_begun(job)
    THEN 'running'
    ELSE job.state
END
