-- What the store, the catalog, slots and replays all use.

-- clock_v1 is the database's time in microseconds; tests give their own.
CREATE FUNCTION sluice.clock_v1(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- ready_v1 makes the settings that these functions rely on, for the transaction.
-- Sessions that are the caller's own have made them for good and give no
-- patience, which is how many milliseconds to wait for a lock.
--
-- Plans are made once, when tables may be empty, and must stay right when they
-- are not: no sequential scans, and nothing that pays only for large queries.
CREATE FUNCTION sluice.ready_v1(patience text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM set_config('lock_timeout', patience, true), set_config('plan_cache_mode', 'force_generic_plan', true),
            set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);
    END IF;
END $$;
