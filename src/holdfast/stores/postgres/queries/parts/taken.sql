-- taken(): lock the lease and take the jobs that due_….sql finds. `clock` has the time.
-- Lock the lease: it must not end before this claim is visible. While another session has the lease locked, this claims nothing, but
-- still settles.
owner AS MATERIALIZED (
    SELECT lease.worker
    FROM holdfast.leases AS lease
    WHERE lease.id = :lease AND lease.ended_at IS NULL AND lease.expires_at >= (SELECT now FROM clock)
        AND (NOT lease.is_isolated OR :is_lone)
    FOR KEY SHARE SKIP LOCKED
),

taken AS (
    DELETE FROM holdfast.pending WHERE ctid = ANY(ARRAY(
        -- due
    ))
    RETURNING
        id, task, queue, key, priority, available_at, attempt, failures, crashes, created_at, expires_at, unique_key, tags, extra, stage,
        fraction, message, progress_at, error, rescue, hook_due_at, checkpoint, payload
)
