-- forgotten_members(those): delete those jobs with all their records, and what they were in their workflows. An edge stays while its child
-- does: so the loss of a parent is seen.
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

forgotten_places AS (
    DELETE FROM holdfast.members WHERE job = ANY(ARRAY(SELECT job FROM those))
),

forgotten_flows AS (
    DELETE FROM holdfast.flows WHERE id = ANY(ARRAY(SELECT job FROM those))
)
