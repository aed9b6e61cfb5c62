-- blocked(id_of): the counters of a member, if it waits for others. OFFSET 0: any plan looks it up by its id.
SELECT members.needs, members.waits, members.is_gate, members.on_failure, members.is_suspended, members.is_cancelled
FROM holdfast.members AS members
WHERE members.job = id_of AND EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = id_of AND job.state = 'blocked' OFFSET 0)
OFFSET 0
