-- Failed and cancelled jobs, with what counts of them are grouped by. Completed jobs do not pay for them.

CREATE INDEX finished_failed_ids ON holdfast.finished (id, queue, task) WHERE state = 'failed';
CREATE INDEX finished_cancelled_ids ON holdfast.finished (id, queue, task) WHERE state = 'cancelled';
