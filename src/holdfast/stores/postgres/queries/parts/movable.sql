-- movable(job): whether a job belongs to no workflow, or to one of :flows, which this transaction has locked.
(job.flow IS NULL OR job.flow = ANY(:flows::uuid[]))
