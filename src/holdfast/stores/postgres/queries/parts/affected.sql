-- affected(root): whether a job that depends on a member of another workflow waits, or has failed because of others.
EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = root AND job.state = 'blocked' OFFSET 0)
OR EXISTS (SELECT FROM holdfast.finished_other AS job WHERE job.id = root AND job.reason = 'DEPENDENCY_FAILED' OFFSET 0)
