-- Renew leases as beat.sql does, and add :notes on those that are renewed to the history of their workers, in one step.
CREATE TEMP VIEW holdfast_beat_noted (items, places, notes, is_draining, wall, monotonic, boot, clock) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_beat_and_note INSTEAD OF INSERT ON holdfast_beat_noted
BEGIN
    UPDATE holdfast_leases SET
        -- include renewed(NEW.monotonic, NEW.boot, NEW.clock, NEW.is_draining)
    WHERE id IN (SELECT substr(NEW.items, 72 * value + 1, 16) FROM json_each(NEW.places))
        AND ended_at IS NULL;

    INSERT INTO holdfast_beats (worker, at, running, claimed, slots, memory, loop_lag, answered_at, delete_after)
    SELECT
        leases.worker, NEW.wall, json_extract(note.value, '$.running'), json_extract(note.value, '$.claimed'), leases.slots,
        json_extract(note.value, '$.memory'), json_extract(note.value, '$.loop_lag'),
        NEW.wall - json_extract(note.value, '$.silence'), NEW.wall + json_extract(note.value, '$.kept')
    FROM json_each(NEW.notes) AS note
    JOIN holdfast_leases AS leases ON leases.id = substr(NEW.items, 72 * json_extract(note.value, '$.place') + 1, 16)
    WHERE leases.ended_at IS NULL;
END;

-- call
INSERT INTO holdfast_beat_noted (items, places, notes, is_draining, wall, monotonic, boot, clock)
VALUES (:items, :places, :notes, :is_draining, :wall, :monotonic, :boot, :clock);
