-- lone(entry): whether a member is a waiting job that has a workflow only because others depend on it, or it on others.
entry.job = entry.flow AND NOT entry.is_gate
AND EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = entry.job OFFSET 0)
AND NOT EXISTS (SELECT FROM holdfast.members AS added WHERE added.flow = entry.job AND added.job <> added.flow OFFSET 0)
