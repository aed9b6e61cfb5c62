-- taken(): take the jobs that due_….sql finds, for the owner.
taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        -- due
    ))
    RETURNING
        id, task, queue, key, priority, available_at, attempt, failures, crashes, created_at, expires_at, unique_key, tags, extra, stage,
        fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload, flow
)
