-- released(members): release blocked members, which are due from now on; in a paused workflow they are held.
UPDATE holdfast.pending SET
    state = CASE WHEN :is_paused::boolean THEN 'held' ELSE 'available' END, held_for = CASE WHEN :is_paused::boolean THEN 'pause' END,
    available_at = greatest(available_at, (SELECT clock_timestamp()))
WHERE id = ANY(members) AND state = 'blocked'
