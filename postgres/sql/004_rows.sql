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

-- load_v1 locks buckets, which must be given in order, and answers them as
-- they are in the table: NULL for those that are not. tids says where.
CREATE FUNCTION sluice.load_v1(
    locking boolean, namespaces text[], entities text[], resources text[], names text[],
    OUT ws sluice.working_v1[], OUT tids tid[]
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The lateral query makes this a loop over the keys, in their order.
    IF locking THEN
        SELECT array_agg(b.w), array_agg(b.ctid) INTO ws, tids
        FROM unnest(namespaces, entities, resources, names) k (namespace, entity, resource, limit_name)
        LEFT JOIN LATERAL (
            SELECT sluice.working_v1(r) AS w, r.ctid FROM sluice.bucket r
            WHERE r.namespace = k.namespace AND r.entity = k.entity
                AND r.resource = k.resource AND r.limit_name = k.limit_name
            FOR NO KEY UPDATE
        ) b ON true;
    ELSE
        SELECT array_agg(b.w), array_agg(b.ctid) INTO ws, tids
        FROM unnest(namespaces, entities, resources, names) k (namespace, entity, resource, limit_name)
        LEFT JOIN LATERAL (
            SELECT sluice.working_v1(r) AS w, r.ctid FROM sluice.bucket r
            WHERE r.namespace = k.namespace AND r.entity = k.entity
                AND r.resource = k.resource AND r.limit_name = k.limit_name
        ) b ON true;
    END IF;
END $$;

-- working_v1 is a row as a working copy, not yet viewed.
CREATE FUNCTION sluice.working_v1(r sluice.bucket) RETURNS sluice.working_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    w sluice.working_v1;
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
    w.id := r.id;
    IF r.algorithm = 2 THEN
        w.ends := r.expires;
    END IF;
    RETURN sluice.compile_v1(w);
END $$;

-- open_v1 views all buckets at now under the limits they have.
CREATE FUNCTION sluice.open_v1(INOUT ws sluice.working_v1[], now bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    w sluice.working_v1;
BEGIN
    FOR i IN 1 .. coalesce(cardinality(ws), 0) LOOP
        w := ws[i];
        IF w.algorithm IS NOT NULL THEN
            ws[i] := sluice.view_v1(w, now);
        END IF;
    END LOOP;
END $$;

-- as_is_v1 is a bucket under the limit it has, or model if there is none or it
-- is full, which is as good, unless a recall has to be remembered.
CREATE FUNCTION sluice.as_is_v1(w sluice.working_v1, model sluice.working_v1) RETURNS sluice.working_v1
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF w.used <> 0 OR w.held <> 0 OR w.recalled > w.now THEN
        RETURN w;
    END IF;
    model.id := w.id;
    model.anew := coalesce(w.algorithm = 3, false);
    RETURN model;
END $$;

-- under_v1 is a bucket under the limit of model, which it adopts if it was
-- written under another.
CREATE FUNCTION sluice.under_v1(w sluice.working_v1, model sluice.working_v1, now bigint) RETURNS sluice.working_v1
LANGUAGE plpgsql STABLE AS $$
BEGIN
    w := sluice.as_is_v1(w, model);
    IF w.algorithm = model.algorithm AND w.amount = model.amount AND w.period = model.period
        AND w.burst = model.burst AND w.calendar = model.calendar AND w.zone = model.zone THEN
        RETURN w;
    END IF;
    RETURN sluice.adopt_v1(w, model, now);
END $$;

-- models_v1 is a full bucket under each limit, viewed at now. bounds has eight
-- numbers for each limit, or none at all if no limit follows the calendar.
CREATE FUNCTION sluice.models_v1(
    algorithms smallint[], amounts bigint[], periods bigint[], bursts bigint[],
    calendars smallint[], zones text[], bounds bigint[], now bigint
) RETURNS sluice.working_v1[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    models sluice.working_v1[];
BEGIN
    FOR i IN 1 .. cardinality(algorithms) LOOP
        models[i] := sluice.view_v1(sluice.fresh_v1(
            algorithms[i], amounts[i], periods[i], bursts[i], calendars[i], zones[i],
            CASE WHEN calendars[i] <> 0 THEN bounds[8 * i - 7 : 8 * i] END
        ), now);
    END LOOP;
    RETURN models;
END $$;

-- expires_v1 is when the row will mean nothing any more.
CREATE FUNCTION sluice.expires_v1(w sluice.working_v1) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN w.algorithm = 2 THEN w.ends ELSE greatest(w.now + sluice.reset_v1(w), w.recalled) END
$$;

-- save_v1 writes the buckets that have changed.
CREATE FUNCTION sluice.save_v1(
    namespaces text[], entities text[], resources text[], names text[], ws sluice.working_v1[], tids tid[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    fresh boolean := false;
    known boolean := false;
    w     sluice.working_v1;
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
            used, rem, at, consumed, expires, recalled, recall_cost, counts, holds
        )
        SELECT k.namespace, k.entity, k.resource, k.limit_name, coalesce(k.id, nextval('sluice.bucket_id')),
            k.algorithm, k.amount, k.period, k.burst, k.calendar, k.zone,
            k.used, k.rem, k.at, k.consumed, sluice.expires_v1(ws[k.i]), k.recalled, k.recall_cost, k.counts, k.holds
        FROM ROWS FROM (unnest(namespaces), unnest(entities), unnest(resources), unnest(names), unnest(tids), unnest(ws))
            WITH ORDINALITY k (
                namespace, entity, resource, limit_name, tid,
                algorithm, amount, period, burst, calendar, zone, bounds, capacity, rate, per,
                used, rem, at, consumed, recalled, recall_cost, counts, holds, now, ends, held, id, anew, changed, i
            )
        WHERE k.changed AND k.tid IS NULL
        ORDER BY k.i
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n < count THEN
            PERFORM sluice.again_v1();
        END IF;
    END IF;
    IF known THEN
        UPDATE sluice.bucket b SET
            algorithm = k.algorithm, amount = k.amount, period = k.period, burst = k.burst,
            calendar = k.calendar, zone = k.zone, id = coalesce(k.id, b.id),
            used = k.used, rem = k.rem, at = k.at, consumed = k.consumed, expires = sluice.expires_v1(ws[k.i]),
            recalled = k.recalled, recall_cost = k.recall_cost, counts = k.counts, holds = k.holds
        FROM ROWS FROM (unnest(tids), unnest(ws))
            WITH ORDINALITY k (
                tid,
                algorithm, amount, period, burst, calendar, zone, bounds, capacity, rate, per,
                used, rem, at, consumed, recalled, recall_cost, counts, holds, now, ends, held, id, anew, changed, i
            )
        WHERE k.changed AND b.ctid = k.tid;
    END IF;
END $$;

-- again_v1 undoes the call: it raced with another, and nothing has happened.
CREATE FUNCTION sluice.again_v1() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'somebody else has just created the same row' USING ERRCODE = 'SL001', HINT = 'Sluice asks again by itself.';
END $$;
