-- Keep finished members until their root is pruned. If their flow is being cancelled, so were they.
UPDATE holdfast_jobs SET
    delete_after = NULL,
    reason = iif(reason = 'BY_OPERATOR' AND :is_by_workflow, 'BY_WORKFLOW', reason)
WHERE id IN (SELECT substr(:items, 72 * value + 1, 16) FROM json_each(:places)) AND id <> flow;
