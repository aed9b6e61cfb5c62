-- Fail waiting jobs that expired before their first start, oldest expiry first.
--
-- A temporary trigger, so that these jobs can be read afterwards, without any lock: see exchange.sql.
CREATE TEMP VIEW holdfast_expire (room, wall, with_members) AS
SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_expire_waiting INSTEAD OF INSERT ON holdfast_expire
BEGIN
    DELETE FROM holdfast_touched;
    INSERT INTO holdfast_touched (what, id, task)
    SELECT 'job', id, task FROM holdfast_jobs
    WHERE claimable_until > 0 AND state = 'available' AND claimable_until <= NEW.wall AND (flow IS NULL OR NEW.with_members)
    ORDER BY claimable_until, id
    LIMIT NEW.room;
    UPDATE holdfast_jobs SET
        state = 'failed',
        reason = 'EXPIRED',
        finished_at = NEW.wall,
        delete_after = NEW.wall + CAST(
            1e6 * coalesce(iif(json_valid(policy), coalesce(
                json_extract(policy, '$.retention_failed'), json_extract(policy, '$.retention')
            ), NULL), 604800) AS INTEGER
        )
    WHERE id IN (SELECT id FROM holdfast_touched);
END;

-- call
INSERT INTO holdfast_expire (room, wall, with_members) VALUES (:limit, :wall, :with_members);
