-- Ask all active members of a flow to cancel.
UPDATE holdfast_jobs SET cancel_requested = 1
WHERE id IN (SELECT job FROM holdfast_members WHERE flow = :flow) AND state IN ('claimed', 'running');
