-- Insert what each of these jobs is in its workflow, after the members that it has. :members: JSON, one list for each job.
INSERT INTO holdfast_members (job, flow, position, node, required, on_failure, is_gate, inputs)
SELECT
    substr(:items, 72 * member.key + 1, 16), :flow, known.last + 1 + member.key, json_extract(member.value, '$[0]'),
    json_extract(member.value, '$[1]'), json_extract(member.value, '$[2]'), json_extract(member.value, '$[3]'),
    json_extract(member.value, '$[4]')
FROM (SELECT coalesce(max(position), -1) AS last FROM holdfast_members WHERE flow = :flow) AS known, json_each(:members) AS member;
