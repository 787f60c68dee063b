-- settle_v1 changes or ends a lease, as storetest.Model.Settle does. Actions are
-- those of sluice.Action: 0 adjust, 1 renew, 2 commit, 3 release.
--
-- Status: 0 done, 1 the lease is closed or unknown, 2 it has no limit named
-- culprit, 3 the limit named culprit is concurrency, whose cost cannot change,
-- 5 bounds, which has eight numbers for each demand of the lease, does not say
-- which calendar window it is at that time. But for 0, nothing was done.
--
-- The arrays are of the lease's demands, with the limits that the buckets have
-- now; for status 5, with those they were taken under. freed says where room
-- was made.
CREATE FUNCTION sluice.settle_v1(
    given bigint, patience text, lease text, action smallint, keep bigint,
    cost_limits text[], costs bigint[], bounds bigint[],
    OUT now bigint, OUT status smallint, OUT culprit text, OUT latest bigint,
    OUT namespaces text[], OUT entities text[], OUT resources text[], OUT names text[],
    OUT algorithms smallint[], OUT amounts bigint[], OUT periods bigint[], OUT bursts bigint[],
    OUT calendars smallint[], OUT zones text[], OUT asked bigint[], OUT flags smallint[],
    OUT consumed bigint[], OUT remaining bigint[], OUT resets bigint[], OUT freed boolean[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seen    sluice.receipt;
    r       sluice.receipt;
    d       sluice.receipt_demand;
    ws      sluice.working_v1[];
    tids    tid[];
    mine    sluice.working_v1[]; -- of each demand
    w       sluice.working_v1;
    places  int[];               -- of each demand: its number among the buckets
    ns      text[];              -- the buckets, in order
    es      text[];
    rs      text[];
    ls      text[];
    charges bigint[];
    n       int;
    before  bigint;
    ends    bigint;
    known   boolean;
BEGIN
    status := 1;
    SELECT x.* INTO seen FROM sluice.receipt x WHERE x.id = lease;
    IF NOT FOUND OR NOT seen.leased THEN
        now := sluice.clock_v1(given);
        latest := now;
        RETURN;
    END IF;
    n := cardinality(seen.demands);
    SELECT array_agg(k.namespace ORDER BY k.place), array_agg(k.entity ORDER BY k.place),
        array_agg(k.resource ORDER BY k.place), array_agg(k.limit_name ORDER BY k.place), array_agg(k.place ORDER BY k.i)
    INTO ns, es, rs, ls, places
    FROM (
        SELECT x.*, row_number() OVER (
            ORDER BY namespace COLLATE "C", entity COLLATE "C", resource COLLATE "C", limit_name COLLATE "C"
        )::int AS place
        FROM ROWS FROM (unnest(seen.demands)) WITH ORDINALITY x (
            namespace, entity, resource, limit_name, algorithm, amount, period, burst, calendar, zone,
            cost, flags, fits, held, consumed, remaining, retry, reset, charge, i
        )
    ) k;
    SELECT l.ws, l.tids INTO ws, tids FROM sluice.load_v1(patience, true, ns, es, rs, ls) l;
    SELECT x.* INTO r FROM sluice.receipt x WHERE x.id = lease FOR NO KEY UPDATE;
    now := sluice.clock_v1(given);
    latest := now;
    IF r.id IS NULL OR r.expires <= now OR NOT r.leased OR r.ended NOT IN (0, action) THEN
        RETURN;
    END IF;
    IF r.taken <> seen.taken OR r.print <> seen.print THEN -- the id was taken anew
        PERFORM sluice.again_v1();
    END IF;
    ws := sluice.open_v1(ws, now);

    -- What the lease is to cost.
    FOR i IN 1 .. n LOOP
        charges[i] := (r.demands[i]).charge;
    END LOOP;
    IF r.ended = 0 THEN
        FOR c IN 1 .. coalesce(cardinality(costs), 0) LOOP
            known := false;
            FOR i IN 1 .. n LOOP
                d := r.demands[i];
                CONTINUE WHEN d.limit_name <> cost_limits[c];
                known := true;
                IF d.algorithm = 3 AND costs[c] <> charges[i] THEN
                    status := 3;
                    culprit := cost_limits[c];
                    RETURN;
                END IF;
                IF d.consumed > 0 THEN
                    charges[i] := costs[c];
                END IF;
            END LOOP;
            IF NOT known THEN
                status := 2;
                culprit := cost_limits[c];
                RETURN;
            END IF;
        END LOOP;
        IF action = 3 THEN
            charges := array_fill(0::bigint, ARRAY[n]);
        END IF;
    END IF;

    -- The buckets under the limits they have, or as they were taken.
    status := 0;
    FOR i IN 1 .. n LOOP
        d := r.demands[i];
        w := sluice.as_is_v1(ws[places[i]], sluice.view_v1(sluice.fresh_v1(
            d.algorithm, d.amount, d.period, d.burst, d.calendar, d.zone, bounds[8 * i - 7 : 8 * i]
        ), now));
        mine[i] := w;
        latest := greatest(latest, w.now);
        namespaces[i] := d.namespace;
        entities[i] := d.entity;
        resources[i] := d.resource;
        names[i] := d.limit_name;
        algorithms[i] := w.algorithm;
        amounts[i] := w.amount;
        periods[i] := w.period;
        bursts[i] := w.burst;
        calendars[i] := w.calendar;
        zones[i] := w.zone;
        asked[i] := d.cost;
        flags[i] := d.flags;
        IF w.algorithm = 2 AND w.ends IS NULL AND charges[i] > d.charge THEN
            status := 5;
        END IF;
    END LOOP;
    IF status <> 0 THEN
        RETURN;
    END IF;

    ends := CASE WHEN action = 1 THEN latest + greatest(keep, 1) ELSE r.expires END;
    FOR i IN 1 .. n LOOP
        d := r.demands[i];
        w := mine[i];
        before := w.used;
        consumed[i] := 0;
        -- A shadow's bucket may have nothing of the lease. A bucket that has
        -- become concurrency, or has been, was started anew.
        IF r.ended = 0 AND d.consumed > 0 AND (d.algorithm = 3) = (w.algorithm = 3) THEN
            IF w.algorithm <> 3 THEN
                IF charges[i] > d.charge THEN
                    w := sluice.spend_v1(w, charges[i] - d.charge);
                ELSIF charges[i] < d.charge THEN
                    w := sluice.refund_v1(w, d.charge - charges[i], r.taken);
                END IF;
                consumed[i] := w.used - before;
            ELSIF action = 1 THEN
                w := sluice.extend_v1(w, lease, ends);
            ELSIF action >= 2 THEN
                w := sluice.alight_v1(w, lease);
                IF action = 3 THEN
                    consumed[i] := w.used - before;
                END IF;
            END IF;
            IF w.changed THEN
                ws[places[i]] := w;
            END IF;
        END IF;
        freed[i] := w.used < before;
        remaining[i] := w.capacity - w.used - w.held;
        resets[i] := sluice.reset_v1(w);
        d.charge := charges[i];
        r.demands[i] := d;
    END LOOP;
    PERFORM sluice.save_v1(ns, es, rs, ls, ws, tids);
    IF r.ended = 0 THEN
        UPDATE sluice.receipt x SET
            demands = r.demands, expires = ends, ended = CASE WHEN action >= 2 THEN action ELSE 0 END
        WHERE x.id = lease;
    END IF;
END $$;
