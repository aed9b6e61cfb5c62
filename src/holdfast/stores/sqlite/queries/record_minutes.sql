-- Add :notes to the history, and delete at most :limit old rows; a copy adds nothing. One statement, so that it is one write.
CREATE TEMP VIEW holdfast_record_minutes (notes, most, wall) AS SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_add_minutes INSTEAD OF INSERT ON holdfast_record_minutes
BEGIN
    INSERT INTO holdfast_minutes (id, at, value)
    SELECT json_extract(note.value, '$.id'), NEW.wall, note.value FROM json_each(NEW.notes) AS note
    WHERE true
    ON CONFLICT (id) DO NOTHING;

    -- HISTORY_RETENTION
    DELETE FROM holdfast_minutes WHERE id IN (
        SELECT id FROM holdfast_minutes WHERE at <= NEW.wall - 86400000000 ORDER BY at LIMIT NEW.most
    );
END;

-- call
INSERT INTO holdfast_record_minutes (notes, most, wall) VALUES (:notes, :limit, :wall);
