-- Reading and writing rows. Every function that changes anything goes through
-- the same order, which no two calls can take in opposite directions, so that
-- none waits for another in a circle:
--
--  1. lock the buckets that exist, in order of their keys,
--  2. then read the clock, and decide,
--  3. insert the buckets that are new, in order of their keys, and update
--     those locked before,
--  4. insert receipts, in order of their ids.
--
-- If somebody else has inserted a bucket or a receipt since it was looked for,
-- the call is undone by an error that says so, and the caller asks again.

-- load_v2 locks buckets, which must be given in order, and answers them as
-- they are in the table: NULL for those that are not. tids says where.
CREATE FUNCTION sluice.load_v2(
    locking boolean, namespaces text[], entities text[], resources text[], names text[],
    OUT ws sluice.working_v2[], OUT tids tid[]
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The lateral query makes this a loop over the keys, in their order.
    IF locking THEN
        SELECT array_agg(b.w), array_agg(b.ctid) INTO ws, tids
        FROM unnest(namespaces, entities, resources, names) k (namespace, entity, resource, limit_name)
        LEFT JOIN LATERAL (
            SELECT sluice.working_v2(r) AS w, r.ctid FROM sluice.bucket r
            WHERE r.namespace = k.namespace AND r.entity = k.entity
                AND r.resource = k.resource AND r.limit_name = k.limit_name
            FOR NO KEY UPDATE
        ) b ON true;
    ELSE
        SELECT array_agg(b.w), array_agg(b.ctid) INTO ws, tids
        FROM unnest(namespaces, entities, resources, names) k (namespace, entity, resource, limit_name)
        LEFT JOIN LATERAL (
            SELECT sluice.working_v2(r) AS w, r.ctid FROM sluice.bucket r
            WHERE r.namespace = k.namespace AND r.entity = k.entity
                AND r.resource = k.resource AND r.limit_name = k.limit_name
        ) b ON true;
    END IF;
END $$;

-- working_v2 is a row as a working copy, not yet viewed.
CREATE FUNCTION sluice.working_v2(r sluice.bucket) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    w sluice.working_v2;
BEGIN
    w.algorithm := r.algorithm;
    w.amount := r.amount;
    w.period := r.period;
    w.burst := r.burst;
    w.calendar := r.calendar;
    w.zone := r.zone;
    w.used := r.used;
    w.rem := r.rem;
    w.at := r.at;
    w.consumed := r.consumed;
    w.recalled := r.recalled;
    w.recall_cost := r.recall_cost;
    w.counts := r.counts;
    w.holds := r.holds;
    w.tickets := r.tickets;
    w.id := r.id;
    IF r.algorithm = 2 THEN
        w.ends := r.expires;
    END IF;
    RETURN sluice.compile_v2(w);
END $$;

-- as_is_v2 is a bucket viewed at now under the limit it has, or model if there is
-- none or it is full, which is as good, unless somebody waits for it.
CREATE FUNCTION sluice.as_is_v2(w sluice.working_v2, model sluice.working_v2, now bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF w.algorithm IS NOT NULL THEN
        IF w.bounds IS NULL AND w.calendar = model.calendar AND w.zone = model.zone THEN
            w.bounds := model.bounds;
        END IF;
        w := sluice.view_v2(w, now);
        IF w.used <> 0 OR w.held <> 0 OR w.recalled > w.now OR w.tickets IS NOT NULL THEN
            RETURN w;
        END IF;
    END IF;
    model.id := w.id;
    model.anew := coalesce(w.algorithm = 3, false);
    RETURN model;
END $$;

-- under_v2 is a bucket under the limit of model, which it adopts if it was
-- written under another.
CREATE FUNCTION sluice.under_v2(w sluice.working_v2, model sluice.working_v2, now bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql STABLE AS $$
BEGIN
    w := sluice.as_is_v2(w, model, now);
    IF w.algorithm = model.algorithm AND w.amount = model.amount AND w.period = model.period
        AND w.burst = model.burst AND w.calendar = model.calendar AND w.zone = model.zone THEN
        RETURN w;
    END IF;
    RETURN sluice.adopt_v2(w, model, now);
END $$;

-- models_v2 is a full bucket under each limit, viewed at now. bounds has eight
-- numbers for each limit, or none at all if no limit follows the calendar.
CREATE FUNCTION sluice.models_v2(
    algorithms smallint[], amounts bigint[], periods bigint[], bursts bigint[],
    calendars smallint[], zones text[], bounds bigint[], now bigint
) RETURNS sluice.working_v2[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    models sluice.working_v2[];
BEGIN
    FOR i IN 1 .. cardinality(algorithms) LOOP
        models[i] := sluice.view_v2(sluice.fresh_v2(
            algorithms[i], amounts[i], periods[i], bursts[i], calendars[i], zones[i],
            CASE WHEN calendars[i] <> 0 THEN bounds[8 * i - 7 : 8 * i] END
        ), now);
    END LOOP;
    RETURN models;
END $$;

-- save_v2 writes the buckets that have changed.
CREATE FUNCTION sluice.save_v2(
    namespaces text[], entities text[], resources text[], names text[], ws sluice.working_v2[], tids tid[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    fresh boolean := false;
    known boolean := false;
    w     sluice.working_v2;
    n     int;
    count int := 0;
BEGIN
    FOR i IN 1 .. cardinality(ws) LOOP
        w := ws[i];
        CONTINUE WHEN w.changed IS NOT TRUE;
        IF w.anew AND w.id IS NOT NULL THEN
            DELETE FROM sluice.flight f WHERE f.bucket = w.id;
        END IF;
        IF tids[i] IS NULL THEN
            count := count + 1;
        ELSE
            known := true;
        END IF;
    END LOOP;
    IF count > 0 THEN
        INSERT INTO sluice.bucket (
            namespace, entity, resource, limit_name, id,
            algorithm, amount, period, burst, calendar, zone,
            used, rem, at, consumed, expires, recalled, recall_cost, counts, holds, tickets
        )
        SELECT k.namespace, k.entity, k.resource, k.limit_name, coalesce(k.id, nextval('sluice.bucket_id')),
            k.algorithm, k.amount, k.period, k.burst, k.calendar, k.zone,
            k.used, k.rem, k.at, k.consumed, coalesce(k.lasts, sluice.expires_v2(ws[k.i])),
            k.recalled, k.recall_cost, k.counts, k.holds, k.tickets
        FROM ROWS FROM (unnest(namespaces), unnest(entities), unnest(resources), unnest(names), unnest(tids), unnest(ws))
            WITH ORDINALITY k (
                namespace, entity, resource, limit_name, tid,
                algorithm, amount, period, burst, calendar, zone, bounds, capacity, rate, per,
                used, rem, at, consumed, recalled, recall_cost, counts, holds, tickets,
                now, behind, ends, held, ahead, ahead_ends, line_ends, rank, id, anew, changed, still,
                was_used, was_rem, was_at, was_consumed, was_counts, was_holds, was_tickets, was_ends, lasts, i
            )
        WHERE k.changed AND k.tid IS NULL
        ORDER BY k.i
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n < count THEN
            PERFORM sluice.again_v2();
        END IF;
    END IF;
    IF known THEN
        UPDATE sluice.bucket b SET
            algorithm = k.algorithm, amount = k.amount, period = k.period, burst = k.burst,
            calendar = k.calendar, zone = k.zone, id = coalesce(k.id, b.id),
            used = k.used, rem = k.rem, at = k.at, consumed = k.consumed, expires = coalesce(k.lasts, sluice.expires_v2(ws[k.i])),
            recalled = k.recalled, recall_cost = k.recall_cost, counts = k.counts, holds = k.holds,
            tickets = k.tickets
        FROM ROWS FROM (unnest(tids), unnest(ws))
            WITH ORDINALITY k (
                tid,
                algorithm, amount, period, burst, calendar, zone, bounds, capacity, rate, per,
                used, rem, at, consumed, recalled, recall_cost, counts, holds, tickets,
                now, behind, ends, held, ahead, ahead_ends, line_ends, rank, id, anew, changed, still,
                was_used, was_rem, was_at, was_consumed, was_counts, was_holds, was_tickets, was_ends, lasts, i
            )
        WHERE k.changed AND b.ctid = k.tid;
    END IF;
END $$;

-- again_v2 undoes the call: it raced with another, and nothing has happened.
CREATE FUNCTION sluice.again_v2() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'somebody else has just created the same row' USING ERRCODE = 'SL001', HINT = 'Sluice asks again by itself.';
END $$;
