-- forget_members(): what deleted jobs were in their workflows. An edge stays while its child does: so the loss of a parent is seen.
DELETE FROM holdfast_edges WHERE child IN (SELECT id FROM holdfast_touched WHERE what = 'job');
DELETE FROM holdfast_members WHERE job IN (SELECT id FROM holdfast_touched WHERE what = 'job');
DELETE FROM holdfast_flows WHERE id IN (SELECT id FROM holdfast_touched WHERE what = 'job')
