-- Return those of these jobs that belong to workflows, as far as their moves depend on it.
SELECT jobs.id, jobs.flow, jobs.state, jobs.reason, members.on_failure, members.is_gate, members.is_paused, members.is_suspended
FROM json_each(:places) AS place
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = substr(:items, 72 * place.value + 1, 16)
CROSS JOIN holdfast_members AS members ON members.job = jobs.id
WHERE jobs.flow IS NOT NULL
ORDER BY place.value;
