-- Insert what the jobs of a new workflow are in it, if its root has been inserted in this transaction; return it then.
-- :flow; :deadline, in seconds; :members and :edges, as JSON: one list for each.
WITH added AS (
    INSERT INTO holdfast.flows (id, deadline_at)
    SELECT :flow, (SELECT clock_timestamp()) + :deadline::double precision * interval '1 second'
    WHERE EXISTS (SELECT FROM holdfast.pending AS root WHERE root.id = :flow AND root.flow = :flow)
    ON CONFLICT DO NOTHING
    RETURNING id
),

known AS (SELECT id, 0 AS last FROM added),

-- include new_members()

SELECT id FROM added;
