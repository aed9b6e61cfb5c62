-- Insert all jobs and the receipt of their call; if the receipt exists already, nothing.
--
-- A temporary trigger writes three tables in one step. Between the steps of a transaction Python would have to get its
-- interpreter lock again while it holds the lock of the file. Then one busy thread would stop every process.
-- Inside a caller's own transaction the statements of the trigger run one by one: see caller_transactions.py.
-- :kinds are what jobs have in common, each with the places of its jobs in :items; the bytes of :items are laid out
-- in parameters.py. Reading digits out of a blob costs a sixth of reading them out of JSON. A job with a unique key is a separate
-- kind, which also has the position of the call's first job with that key.

CREATE TEMP VIEW holdfast_enqueue (
    call, is_plain, items, data, kinds, parent, parent_claim, parent_number, wall, inline
) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_enqueue_once INSTEAD OF INSERT ON holdfast_enqueue
WHEN NOT EXISTS (SELECT 1 FROM holdfast_receipts WHERE call = NEW.call)
BEGIN
    -- First record the answer of this call, for now and for each repetition: which jobs have its keys already.
    INSERT INTO holdfast_receipts (call, received_at, answer)
    SELECT NEW.call, NEW.wall, iif(NEW.is_plain, NULL, (
        SELECT json_object(
            'is_lost', NEW.parent IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM holdfast_jobs
                WHERE id = NEW.parent AND claim_id = NEW.parent_claim AND claim_number = NEW.parent_number
                    AND state IN ('claimed', 'running')
            ),
            'is_refused', coalesce(max(payload IS NOT held_payload), 0),
            'duplicates', json_group_array(json_array(hex(job), hex(holder), payload IS held_payload)),
            'skipped', json_group_array(place)
        )
        FROM (
            SELECT
                keyed.*,
                substr(NEW.items, 72 * place + 1, 16) AS job,
                substr(NEW.data, substr(NEW.items, 72 * place + 52, 11), substr(NEW.items, 72 * place + 63, 10)) AS payload,
                coalesce(holding.id, substr(NEW.items, 72 * first + 1, 16)) AS holder,
                iif(
                    holding.id IS NULL,
                    substr(NEW.data, substr(NEW.items, 72 * first + 52, 11), substr(NEW.items, 72 * first + 63, 10)),
                    coalesce(holding.payload, (SELECT payloads.payload FROM holdfast_payloads AS payloads WHERE payloads.job = holding.id))
                ) AS held_payload
            FROM (
                SELECT
                    json_extract(value, '$.task') AS task,
                    json_extract(value, '$.unique_key') AS key,
                    json_extract(value, '$.first') AS first,
                    json_extract(value, '$.at[0]') AS place
                FROM json_each(NEW.kinds)
                WHERE json_extract(value, '$.unique_key') IS NOT NULL
            ) AS keyed
            LEFT JOIN holdfast_jobs AS holding
                ON holding.task = keyed.task AND holding.unique_key = keyed.key
                AND -- include holds_key(holding, NEW.wall)
            WHERE holding.id IS NOT NULL OR keyed.first <> keyed.place
            ORDER BY place
        )
    ));

    -- A job whose time is over loses its key to a new one.
    UPDATE holdfast_jobs SET extra = json_set(extra, '$.unique.is_freed', json('true'))
    WHERE NOT NEW.is_plain AND id IN (
        SELECT keeping.id
        FROM json_each(NEW.kinds) AS kind
        JOIN holdfast_jobs AS keeping
            ON keeping.task = json_extract(kind.value, '$.task') AND keeping.unique_key = json_extract(kind.value, '$.unique_key')
            AND -- include keeps_key(keeping)
        WHERE (
            -- include holds_key(keeping, NEW.wall)
        ) IS NOT TRUE
    ) AND (
        SELECT json_extract(answer, '$.is_lost') + json_extract(answer, '$.is_refused') = 0
        FROM holdfast_receipts WHERE call = NEW.call
    );

    INSERT INTO holdfast_jobs (
        id, task, queue, key, priority, state, created_at, available_at, expires_at, claimable_until, unique_key, tags, extra, policy,
        payload
    )
    SELECT
        job, task, queue, coalesce(key, ''), priority, 'available', NEW.wall, coalesce(run_at, NEW.wall + delay), NEW.wall + expires_in,
        NEW.wall + expires_in, unique_key, tags, extra, policy, iif(length <= NEW.inline, substr(NEW.data, start, length), NULL)
    FROM (
        WITH kind AS MATERIALIZED (
            SELECT
                json_extract(value, '$.task') AS task,
                json_extract(value, '$.queue') AS queue,
                json_extract(value, '$.key') AS key,
                json_extract(value, '$.priority') + coalesce((
                    SELECT queues.priority FROM holdfast_queues AS queues WHERE queues.queue = json_extract(value, '$.queue')
                ), 0) AS priority,
                json_extract(value, '$.run_at') AS run_at,
                json_extract(value, '$.delay') AS delay,
                json_extract(value, '$.expires_in') AS expires_in,
                json_extract(value, '$.unique_key') AS unique_key,
                json_extract(value, '$.tags') AS tags,
                json_extract(value, '$.extra') AS extra,
                json_extract(value, '$.policy') AS policy,
                json_extract(value, '$.at') AS places
            FROM json_each(NEW.kinds)
        )
        SELECT
            substr(NEW.items, 72 * place.value + 1, 16) AS job,
            substr(NEW.items, 72 * place.value + 52, 11) + 0 AS start,
            substr(NEW.items, 72 * place.value + 63, 10) + 0 AS length,
            kind.*, place.value AS place
        FROM kind, json_each(kind.places) AS place
    )
    WHERE NEW.is_plain OR (
        (
            SELECT json_extract(answer, '$.is_lost') + json_extract(answer, '$.is_refused') = 0
            FROM holdfast_receipts WHERE call = NEW.call
        )
        AND place NOT IN (
            SELECT skipped.value
            FROM holdfast_receipts AS receipts, json_each(receipts.answer, '$.skipped') AS skipped
            WHERE receipts.call = NEW.call
        )
    );

    INSERT INTO holdfast_payloads (job, payload)
    SELECT job, substr(NEW.data, start, length)
    FROM (
        SELECT
            place.value AS place,
            substr(NEW.items, 72 * place.value + 1, 16) AS job,
            substr(NEW.items, 72 * place.value + 52, 11) + 0 AS start,
            substr(NEW.items, 72 * place.value + 63, 10) + 0 AS length
        FROM json_each(NEW.kinds) AS kind, json_each(kind.value, '$.at') AS place
    )
    WHERE length > NEW.inline
        AND (NEW.is_plain OR (
            (
                SELECT json_extract(answer, '$.is_lost') + json_extract(answer, '$.is_refused') = 0
                FROM holdfast_receipts WHERE call = NEW.call
            )
            AND place NOT IN (
                SELECT skipped.value
                FROM holdfast_receipts AS receipts, json_each(receipts.answer, '$.skipped') AS skipped
                WHERE receipts.call = NEW.call
            )
        ));
END;

-- call
INSERT INTO holdfast_enqueue (
    call, is_plain, items, data, kinds, parent, parent_claim, parent_number, wall, inline
) VALUES (
    :call, :is_plain, :items, :data, :kinds, :parent, :parent_claim, :parent_number, :wall, :inline
);
