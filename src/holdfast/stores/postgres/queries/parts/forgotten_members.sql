-- forgotten_members(those): delete those jobs with all their records, and what they were in their workflows. An edge stays while its child
-- does: so the loss of a parent is seen. One that leads to another workflow stays only while its child waits.
forgotten_finished AS (
    DELETE FROM holdfast.finished_other WHERE id = ANY(ARRAY(SELECT job FROM those)) RETURNING id
),

forgotten_pending AS (
    DELETE FROM holdfast.pending WHERE id = ANY(ARRAY(SELECT job FROM those)) RETURNING id
),

forgotten_attempts AS (
    DELETE FROM holdfast.attempts WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_payloads AS (
    DELETE FROM holdfast.payloads WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_steps AS (
    DELETE FROM holdfast.steps WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_signals AS (
    DELETE FROM holdfast.signals WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_edges AS (
    DELETE FROM holdfast.edges WHERE child = ANY(ARRAY(SELECT job FROM those))
),

forgotten_outer_edges AS (
    DELETE FROM holdfast.edges WHERE parent = ANY(ARRAY(SELECT job FROM those)) AND parent_flow IS NOT NULL
        AND NOT EXISTS (SELECT FROM holdfast.pending AS child WHERE child.id = edges.child AND child.state = 'blocked' OFFSET 0)
),

forgotten_places AS (
    DELETE FROM holdfast.members WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_keys AS (
    DELETE FROM holdfast.unique_keys WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_flows AS (
    DELETE FROM holdfast.flows WHERE id = ANY(ARRAY(SELECT job FROM those))
)
