-- Failed and cancelled jobs, with what counts of them are grouped by. Completed jobs do not pay for it.

CREATE INDEX finished_ended_badly ON holdfast.finished (state, id, queue, task) WHERE state IN ('failed', 'cancelled');
