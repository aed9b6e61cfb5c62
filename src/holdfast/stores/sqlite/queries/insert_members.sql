-- Insert what each of these jobs is in its workflow. :members: JSON, one list for each job.
INSERT INTO holdfast_members (job, flow, position, node, required, on_failure, is_gate, inputs)
SELECT
    substr(:items, 72 * member.key + 1, 16), :flow, member.key, json_extract(member.value, '$[0]'), json_extract(member.value, '$[1]'),
    json_extract(member.value, '$[2]'), json_extract(member.value, '$[3]'), json_extract(member.value, '$[4]')
FROM json_each(:members) AS member;
