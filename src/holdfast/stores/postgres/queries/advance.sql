-- Move a schedule on from its due tick and insert the job of a tick, in one statement; nothing if another caller was faster. Return
-- whether the job was inserted, now or by the first copy of this move; NULL if the move did not land.
-- :name, :version, :next_version, :change, :tick, :following, :is_skipping, :job and :call, the parameter of enqueue_plain.sql with that job.
WITH ticked AS MATERIALIZED (
    UPDATE holdfast.schedules AS schedules SET
        last_tick = :tick,
        next_at = :following,
        version = :next_version::bigint,
        change = :change,
        last_job = CASE
            WHEN :is_skipping::boolean AND (
                EXISTS (SELECT FROM holdfast.pending WHERE id = schedules.last_job)
                OR EXISTS (SELECT FROM holdfast.active WHERE id = schedules.last_job)
            ) THEN schedules.last_job
            ELSE coalesce(:job::uuid, schedules.last_job)
        END
    WHERE name = :name AND version = :version AND next_at <= clock_timestamp() AND paused_at IS NULL
    RETURNING coalesce(last_job = :job::uuid, false) AS fires
),

-- include plain_jobs(EXISTS (SELECT FROM ticked WHERE fires))

SELECT coalesce(
    (SELECT fires FROM ticked),
    (SELECT coalesce(last_job = :job::uuid, false) FROM holdfast.schedules WHERE name = :name AND change = :change)
) AS fires;
