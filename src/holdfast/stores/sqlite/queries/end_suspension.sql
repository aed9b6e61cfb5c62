-- Let members that are blocked again wait for their parents, not for their children.
UPDATE holdfast_members SET is_suspended = 0
WHERE is_suspended AND job IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
