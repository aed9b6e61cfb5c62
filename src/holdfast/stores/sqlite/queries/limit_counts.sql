-- Count the active jobs that limits may count, by task, queue and key.
-- They are few on one machine: an index of them would cost each claim and settle more than this costs claims within limits.
SELECT task, queue, key, count(*) FROM holdfast_jobs WHERE state IN ('claimed', 'running') GROUP BY task, queue, key;
