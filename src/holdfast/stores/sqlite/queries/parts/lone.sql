-- lone(which): whether a job has a workflow only because others depend on it, or it on others.
EXISTS (SELECT 1 FROM holdfast_members AS own WHERE own.job = which AND own.flow = which AND NOT own.is_gate)
AND NOT EXISTS (SELECT 1 FROM holdfast_members AS added WHERE added.flow = which AND added.job <> which)
