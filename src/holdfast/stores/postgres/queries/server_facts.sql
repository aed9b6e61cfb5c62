-- Return what a check needs of the server, with or without Holdfast's schema. The time is the server's own, not the one jobs go by.
-- :schema.
SELECT
    current_setting('server_version') AS version,
    quote_ident(current_user) AS "user",
    pg_is_in_recovery() AS is_standby,
    (SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_read_only') = 'on' AS is_read_only,
    (SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only') AS read_only_by,
    quote_ident(current_database()) AS database,
    current_setting('fsync') = 'on' AS has_fsync,
    current_setting('full_page_writes') = 'on' AS has_full_pages,
    (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS synchronous_commit,
    current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS has_autovacuum,
    (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint AS now,
    extract(epoch FROM now() - oldest.xact_start)::double precision AS oldest,
    format('%s of %s, pid %s', coalesce(nullif(oldest.application_name, ''), 'a client'), oldest.usename, oldest.pid) AS whose,
    oldest.pid AS pid,
    (SELECT extract(epoch FROM now() - min(prepared))::double precision FROM pg_prepared_xacts) AS oldest_prepared,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer AS most,
    (SELECT max(extract(epoch FROM replay_lag))::double precision FROM pg_stat_replication) AS lag,
    current_setting('synchronous_standby_names') <> '' AND NOT EXISTS (
        SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')
    ) AS is_standby_missing,
    (
        SELECT array_agg(relname::text ORDER BY relname)
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = :schema AND 'autovacuum_enabled=false' = ANY (reloptions)
    ) AS unvacuumed,
    (
        SELECT string_agg(format('%s %s', relname, n_dead_tup), ', ' ORDER BY n_dead_tup DESC)
        FROM pg_stat_user_tables
        WHERE schemaname = :schema
            AND relname IN ('pending', 'active', 'leases', 'unique_keys')
            AND n_dead_tup > 100000 + n_live_tup
    ) AS dead
FROM (SELECT) AS one
LEFT JOIN (
    SELECT application_name, usename, pid, xact_start FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()
    ORDER BY xact_start
    LIMIT 1
) AS oldest ON true
