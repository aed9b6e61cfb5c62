-- Write progress and checkpoints of active jobs under their tokens. NULL leaves a field as it is; an update that arrives after a newer
-- one changes nothing. Return the jobs that are active under their tokens, and whether each was written. A job that another session
-- has locked does not delay the others, and is asked for again.
-- :jobs, :claims, :numbers (ascending, each once), found as exchange.sql describes;
-- :stages, :fractions, :messages, :checkpoints, :orders, :points of each.
WITH ours AS MATERIALIZED (
    SELECT job.id, job.claim_id, job.claim_number
    FROM holdfast.active AS job
    WHERE -- include token(job, id, width_bucket(job.claim_number, :numbers::bigint[]))
),

free AS MATERIALIZED (
    SELECT job.claim_number
    FROM holdfast.active AS job
    WHERE job.id = ANY(:jobs::uuid[]) AND job.claim_number = ANY(ARRAY(SELECT ours.claim_number FROM ours))
    FOR NO KEY UPDATE SKIP LOCKED
),

written AS (
    UPDATE holdfast.active AS job SET
        (stage, fraction, message, checkpoint, report_order, points, progress_at, last_moved_at) = (
            SELECT
                coalesce(CASE WHEN is_news THEN (:stages::text[])[place] END, job.stage),
                coalesce(CASE WHEN is_news THEN (:fractions::double precision[])[place] END, job.fraction),
                coalesce(CASE WHEN is_news THEN (:messages::text[])[place] END, job.message),
                coalesce(CASE WHEN is_news THEN (:checkpoints::bytea[])[place] END, job.checkpoint),
                coalesce(CASE WHEN is_news THEN (:orders::bigint[])[place] END, job.report_order),
                coalesce(CASE WHEN is_news THEN (:points::text[])[place] END, job.points),
                CASE WHEN is_news THEN clock_timestamp() ELSE job.progress_at END,
                CASE WHEN is_news THEN clock_timestamp() ELSE job.last_moved_at END
            FROM
                width_bucket(job.claim_number, :numbers::bigint[]) AS place,
                LATERAL (SELECT coalesce((:orders::bigint[])[place], job.report_order) >= job.report_order AS is_news) AS judged
        )
    WHERE job.id = ANY(:jobs::uuid[]) AND job.claim_number = ANY(ARRAY(SELECT free.claim_number FROM free))
    RETURNING job.claim_number
)

SELECT ours.id, ours.claim_id, ours.claim_number,
ours.claim_number = ANY(ARRAY(SELECT written.claim_number FROM written)) AS is_written FROM ours;
