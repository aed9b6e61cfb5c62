-- forget_members(): what deleted jobs were in their workflows. An edge stays while its child does: so the loss of a parent is seen.
-- One that leads to another flow stays only while its child waits.
DELETE FROM holdfast_edges WHERE child IN (SELECT id FROM holdfast_touched WHERE what = 'job');
DELETE FROM holdfast_edges
WHERE parent IN (SELECT id FROM holdfast_touched WHERE what = 'job') AND parent_flow IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS child WHERE child.id = holdfast_edges.child AND child.state = 'blocked');
DELETE FROM holdfast_members WHERE job IN (SELECT id FROM holdfast_touched WHERE what = 'job');
DELETE FROM holdfast_flows WHERE id IN (SELECT id FROM holdfast_touched WHERE what = 'job')
