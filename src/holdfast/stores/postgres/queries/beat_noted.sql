-- Renew leases as beat.sql does, and add the notes on those that are renewed to the history of their workers.
-- :leases; :is_draining, whether their workers take no more jobs; :noted, the leases of the notes.
-- :running, :claimed, :memory in bytes; :loop_lag, :silence and :kept in seconds: of each note.
WITH -- include renewed(),
noted AS (
    INSERT INTO holdfast.beats (worker, at, running, claimed, slots, memory, loop_lag, answered_at, delete_after)
    SELECT
        leases.worker, now, note.running, note.claimed, leases.slots, note.memory, note.loop_lag,
        now - note.silence * interval '1 second', now + note.kept * interval '1 second'
    FROM clock CROSS JOIN unnest(
        :noted::uuid[], :running::integer[], :claimed::integer[], :memory::bigint[], :loop_lag::double precision[],
        :silence::double precision[], :kept::double precision[]
    ) AS note (lease, running, claimed, memory, loop_lag, silence, kept)
    JOIN renewed ON renewed.id = note.lease
    JOIN holdfast.leases ON leases.id = note.lease
)
-- include beat_answer()
