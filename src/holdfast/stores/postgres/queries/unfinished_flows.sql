-- Return workflows that have not ended, by id.
-- :after, NULL: from the first one; :flow, NULL: all; :limit.
SELECT id FROM (
    (
        SELECT root.id FROM holdfast.pending AS root
        WHERE root.flow = root.id AND root.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
            AND (:flow::uuid IS NULL OR root.id = :flow)
        ORDER BY root.id
        LIMIT :limit
    )
    UNION ALL
    (
        SELECT root.id FROM holdfast.active AS root
        WHERE root.flow = root.id AND root.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
            AND (:flow::uuid IS NULL OR root.id = :flow)
        ORDER BY root.id
        LIMIT :limit
    )
) AS roots
ORDER BY id
LIMIT :limit;
