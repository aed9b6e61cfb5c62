-- Return what is recorded of the outcomes of these jobs, by their positions. Only a gate that has completed shows its inputs.
SELECT
    place.value, jobs.state, jobs.reason, jobs.error, jobs.result, jobs.is_stub,
    iif(jobs.state = 'completed', (SELECT members.inputs FROM holdfast_members AS members WHERE members.job = jobs.id AND members.is_gate), NULL)
FROM json_each(:places) AS place
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = substr(:items, 72 * place.value + 1, 16);
