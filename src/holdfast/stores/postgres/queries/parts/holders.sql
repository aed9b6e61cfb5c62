-- holders(is_asked): the active jobs that a limit counts and that were claimed first, as JSON: id, worker, microseconds.
SELECT json_agg(json_build_array(holder.id, holder.worker, holder.held) ORDER BY holder.held DESC, holder.id)::text FROM (
    SELECT id, worker, (extract(epoch FROM (SELECT now FROM clock) - claimed_at) * 1000000)::bigint AS held FROM counted
    WHERE is_asked AND limits.name = CASE limits.scope WHEN 'all' THEN '' WHEN 'task' THEN counted.task ELSE counted.queue END
    ORDER BY claimed_at, id LIMIT :most
) AS holder
