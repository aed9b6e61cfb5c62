-- Insert the workflows of plain jobs that are to wait for children, before the locks of others; those that exist stay as they are.
-- :flows, ascending.
INSERT INTO holdfast.flows (id) SELECT unnest(:flows::uuid[]) ON CONFLICT DO NOTHING;
