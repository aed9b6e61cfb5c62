-- The results of the parents of a claimed job, if it takes any: small ones, which only members that completed by their code have.
CASE
    WHEN flow IS NOT NULL THEN ARRAY(
        SELECT ROW(ended.id, ended.result) FROM holdfast.finished AS ended
        WHERE ended.id = ANY(ARRAY(
            SELECT edges.parent FROM holdfast.members AS members JOIN holdfast.edges AS edges ON edges.child = members.job
            WHERE members.job = active.id AND members.inputs IS NOT NULL LIMIT 16
        )) AND octet_length(ended.result) <= 1024
    )
END
