-- sweep_v2 deletes what has expired among the next few buckets and receipts, at
-- most once per pause for all nodes together. It goes through the buckets by
-- key, because an index by expiry would have to be written with every take.
CREATE FUNCTION sluice.sweep_v2(
    given bigint, most int, pause interval,
    OUT now bigint, OUT looked int, OUT buckets int, OUT receipts int
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    here sluice.sweep;
    next sluice.sweep;
    tids tid[];
    ids  bigint[];
BEGIN
    now := sluice.clock_v1(given);
    looked := 0;
    buckets := 0;
    receipts := 0;
    SELECT s.* INTO here FROM sluice.sweep s FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR here.swept_at > clock_timestamp() - pause THEN
        RETURN; -- somebody else does, or has just done
    END IF;

    DELETE FROM sluice.receipt r USING (
        SELECT x.id FROM sluice.receipt x WHERE x.expires <= now
        ORDER BY x.expires LIMIT most FOR UPDATE SKIP LOCKED
    ) gone
    WHERE r.id = gone.id;
    GET DIAGNOSTICS receipts = ROW_COUNT;

    -- The last key of the round before is the first of this one.
    SELECT count(*), array_agg(b.ctid) FILTER (WHERE b.expires <= now AND NOT b.awaited),
        (array_agg(b.namespace))[count(*)::int], (array_agg(b.entity))[count(*)::int],
        (array_agg(b.resource))[count(*)::int], (array_agg(b.limit_name))[count(*)::int]
    INTO looked, tids, next.namespace, next.entity, next.resource, next.limit_name
    FROM (
        SELECT x.ctid, x.expires, x.namespace, x.entity, x.resource, x.limit_name,
            x.tickets IS NOT NULL AND now < sluice.line_ends_v2(x.tickets) AS awaited
        FROM sluice.bucket x
        WHERE (x.namespace, x.entity, x.resource, x.limit_name)
            >= (here.namespace, here.entity, here.resource, here.limit_name)
        ORDER BY x.namespace, x.entity, x.resource, x.limit_name
        LIMIT most
    ) b;
    IF tids IS NOT NULL THEN
        -- A row that was written meanwhile is elsewhere, or it is locked.
        SELECT array_agg(b.ctid), array_agg(b.id) FILTER (WHERE b.algorithm = 3) INTO tids, ids
        FROM (
            SELECT x.ctid, x.id, x.algorithm FROM sluice.bucket x
            WHERE x.ctid = ANY (tids) AND x.expires <= now FOR UPDATE SKIP LOCKED
        ) b;
        DELETE FROM sluice.flight f WHERE f.bucket = ANY (ids);
        DELETE FROM sluice.bucket b WHERE b.ctid = ANY (tids);
        GET DIAGNOSTICS buckets = ROW_COUNT;
    END IF;
    IF looked < most THEN -- the end: start again
        next.namespace := '';
        next.entity := '';
        next.resource := '';
        next.limit_name := '';
    END IF;
    UPDATE sluice.sweep s SET swept_at = clock_timestamp(),
        namespace = next.namespace, entity = next.entity, resource = next.resource, limit_name = next.limit_name;
END $$;
