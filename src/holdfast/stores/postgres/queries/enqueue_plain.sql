-- Insert jobs without a unique key or a parent, and the receipt of their call; if the receipt exists already, nothing.
--
-- :call, one parameter, of type json because jsonb refuses a zero character in any text, so that it runs unchanged through every
-- driver. Its kinds are what jobs have in common, each with its jobs' ids and payloads: see parameters.py.
WITH
-- include plain_jobs(true)

-- A copy of the call gets the answer of the first one.
SELECT
    CASE WHEN NOT EXISTS (SELECT FROM receipt) THEN (
        SELECT receipts.answer FROM asked JOIN holdfast.receipts AS receipts ON receipts.call = asked.call
    ) END AS answer, false AS is_known, NULL::boolean AS again;
