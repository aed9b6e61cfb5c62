-- Failed and cancelled jobs from the newest on, with what counts of them are grouped by. Completed jobs do not pay for it.
CREATE INDEX main.holdfast_ended_badly ON holdfast_jobs (state, id, queue, task) WHERE state IN ('failed', 'cancelled');
