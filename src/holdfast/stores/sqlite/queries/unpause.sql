-- Let claims take from these queues again.
--
-- A temporary trigger, because a queue without settings loses its row, and any other keeps it: see exchange.sql.
CREATE TEMP VIEW holdfast_unpause (queues) AS
SELECT NULL;

CREATE TEMP TRIGGER holdfast_unpause_queues INSTEAD OF INSERT ON holdfast_unpause
BEGIN
    UPDATE holdfast_queues SET paused_at = NULL
    WHERE queue IN (SELECT value FROM json_each(NEW.queues));
    -- include forget_queues();
END;

-- call
INSERT INTO holdfast_unpause (queues) VALUES (:queues);
