-- Delete finished members of workflows whose root has ended; with a root all its members, once all of them have ended. Delete also waiting
-- jobs that have a workflow only because others depend on them, or they on others. Return what was deleted.
-- :ids of members; :only_waiting, true: held and finished ones are left; :flows, locked.
WITH chosen AS MATERIALIZED (
    SELECT members.job, members.flow FROM holdfast.members AS members
    WHERE members.job = ANY(:ids::uuid[]) AND members.flow = ANY(:flows::uuid[])
        AND (
            -- include lone(members)
            OR (
                NOT EXISTS (SELECT FROM holdfast.pending AS root WHERE root.id = members.flow OFFSET 0)
                AND NOT EXISTS (SELECT FROM holdfast.active AS root WHERE root.id = members.flow OFFSET 0)
                AND NOT EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = members.job OFFSET 0)
                AND NOT EXISTS (SELECT FROM holdfast.active AS job WHERE job.id = members.job OFFSET 0)
                AND NOT -- include awaited(members.flow)
                AND NOT EXISTS (
                    SELECT FROM holdfast.members AS inner_one
                    WHERE inner_one.flow = members.job AND ( -- one that runs again although its root has ended
                        EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = inner_one.job OFFSET 0)
                        OR EXISTS (SELECT FROM holdfast.active AS job WHERE job.id = inner_one.job OFFSET 0)
                    )
                )
            )
        )
        AND (
            NOT :only_waiting::boolean
            OR EXISTS (SELECT FROM holdfast.pending AS job WHERE job.id = members.job AND job.state = 'available' OFFSET 0)
        )
),

those AS MATERIALIZED (
    SELECT job FROM chosen
    UNION
    SELECT members.job FROM holdfast.members AS members WHERE members.flow = ANY(ARRAY(SELECT job FROM chosen WHERE job = flow))
),

-- include forgotten_members(those)

SELECT job FROM those;
