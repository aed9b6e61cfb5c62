-- Write what an operator chose for failed members.
UPDATE holdfast_members SET on_failure = :on_failure
WHERE job IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places));
