-- Delete workflows that were begun in this transaction, and that have no members.
-- :flows.
DELETE FROM holdfast.flows AS flows
WHERE flows.id = ANY(:flows::uuid[]) AND NOT EXISTS (SELECT FROM holdfast.members AS members WHERE members.flow = flows.id OFFSET 0);
