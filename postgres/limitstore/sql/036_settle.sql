-- settle_v3 changes or ends leases, one after the other, as
-- storetest.Model.Settle does. Actions are those of sluice.Action: 0 adjust,
-- 1 renew, 2 commit, 3 release. Each lease has the next few of the costs: as
-- many as cost_counts says.
--
-- Statuses: 0 done, 1 the lease is closed or unknown, 2 it has no limit named
-- in culprits, 3 that limit is concurrency, whose cost cannot change, 5 bounds,
-- which has eight numbers for each demand of the only lease, does not say which
-- calendar window it is at that time. But for 0, nothing was done.
--
-- Of each lease that was found, the arrays from namespaces on have its demands,
-- as many as demand_counts says, with the limits that the buckets have now and
-- what the lease costs from now on; for
-- status 5, with those they were taken under. freed says where room was made.
CREATE FUNCTION sluice.settle_v3(
    given bigint, patience text,
    leases text[], actions smallint[], keeps bigint[], cost_counts int[],
    cost_limits text[], costs bigint[], bounds bigint[],
    OUT now bigint, OUT statuses smallint[], OUT culprits text[], OUT times bigint[], OUT takens bigint[], OUT demand_counts int[],
    OUT namespaces text[], OUT entities text[], OUT resources text[], OUT names text[],
    OUT algorithms smallint[], OUT amounts bigint[], OUT periods bigint[], OUT bursts bigint[],
    OUT calendars smallint[], OUT zones text[], OUT charged bigint[], OUT flags smallint[],
    OUT consumed bigint[], OUT returned bigint[], OUT remaining bigint[], OUT frees bigint[], OUT resets bigint[], OUT freed boolean[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seen       sluice.receipt[]; -- of each lease, as it was before anything was locked
    r          sluice.receipt;
    old        sluice.receipt;
    d          sluice.receipt_demand;
    ws         sluice.working_v2[];
    tids       tid[];
    mine       sluice.working_v2[]; -- the buckets of one lease
    w          sluice.working_v2;
    places     int[];               -- of all demands: which bucket
    ns         text[];              -- the buckets, in order
    es         text[];
    rs         text[];
    ls         text[];
    charges    bigint[];            -- what the lease is to cost
    first      int := 0;            -- before the lease's first among all demands seen,
    out        int := 0;            -- among those answered,
    first_cost int := 0;            -- and among the costs
    n          int;
    before     bigint;
    ends       bigint;
    known      boolean;
    status     smallint;
BEGIN
    PERFORM sluice.ready_v1(patience);
    SELECT array_agg(x.r ORDER BY k.i) INTO seen
    FROM unnest(leases) WITH ORDINALITY k (id, i)
    LEFT JOIN LATERAL (SELECT x AS r FROM sluice.receipt x WHERE x.id = k.id AND x.leased) x ON true;

    -- Lock the buckets of all leases, each once and in order.
    SELECT array_agg(k.namespace ORDER BY k.place) FILTER (WHERE k.once = 1),
        array_agg(k.entity ORDER BY k.place) FILTER (WHERE k.once = 1),
        array_agg(k.resource ORDER BY k.place) FILTER (WHERE k.once = 1),
        array_agg(k.limit_name ORDER BY k.place) FILTER (WHERE k.once = 1),
        array_agg(k.place ORDER BY k.t, k.i)
    INTO ns, es, rs, ls, places
    FROM (
        SELECT s.t, x.i, x.namespace, x.entity, x.resource, x.limit_name,
            (dense_rank() OVER sorted)::int AS place,
            row_number() OVER (PARTITION BY x.namespace, x.entity, x.resource, x.limit_name) AS once
        FROM ROWS FROM (unnest(seen)) WITH ORDINALITY
            s (id, print, taken, due, expires, allowed, leased, ended, demands, t)
        CROSS JOIN LATERAL ROWS FROM (unnest(s.demands)) WITH ORDINALITY x (
            namespace, entity, resource, limit_name, algorithm, amount, period, burst, calendar, zone,
            cost, flags, fits, held, consumed, remaining, retry, reset, charge, i
        )
        WINDOW sorted AS (ORDER BY x.namespace COLLATE "C", x.entity COLLATE "C", x.resource COLLATE "C", x.limit_name COLLATE "C")
    ) k;
    IF ns IS NOT NULL THEN
        SELECT l.ws, l.tids INTO ws, tids FROM sluice.load_v2(true, ns, es, rs, ls) l;
        PERFORM FROM sluice.receipt x WHERE x.id = ANY (leases) ORDER BY x.id FOR NO KEY UPDATE;
    END IF;
    now := sluice.clock_v1(given);

    FOR t IN 1 .. cardinality(leases) LOOP
        old := seen[t];
        times[t] := now;
        takens[t] := 0;
        statuses[t] := 1;
        culprits[t] := '';
        demand_counts[t] := 0;
        first_cost := first_cost + cost_counts[t];
        CONTINUE WHEN old.id IS NULL;
        n := cardinality(old.demands);
        first := first + n;
        SELECT x.* INTO r FROM sluice.receipt x WHERE x.id = old.id;
        CONTINUE WHEN r.id IS NULL OR r.expires <= now OR NOT r.leased OR r.ended NOT IN (0, actions[t]);
        IF r.taken <> old.taken OR r.print <> old.print THEN -- the id was taken anew
            PERFORM sluice.again_v2();
        END IF;

        -- What the lease is to cost.
        status := 0;
        charges := NULL;
        FOR i IN 1 .. n LOOP
            d := r.demands[i];
            charges[i] := CASE WHEN actions[t] = 3 AND r.ended = 0 THEN 0 ELSE d.charge END;
        END LOOP;
        FOR c IN first_cost - cost_counts[t] + 1 .. first_cost LOOP
            EXIT WHEN r.ended <> 0;
            known := false;
            FOR i IN 1 .. n LOOP
                d := r.demands[i];
                CONTINUE WHEN d.limit_name <> cost_limits[c];
                known := true;
                IF d.algorithm = 3 AND costs[c] <> d.charge THEN
                    status := 3;
                ELSIF d.consumed > 0 AND actions[t] <> 3 THEN
                    charges[i] := costs[c];
                END IF;
            END LOOP;
            IF NOT known THEN
                status := 2;
            END IF;
            IF status <> 0 THEN
                culprits[t] := cost_limits[c];
                EXIT;
            END IF;
        END LOOP;
        statuses[t] := status;
        CONTINUE WHEN status <> 0;

        -- The buckets under the limits they have, or as they were taken.
        FOR i IN 1 .. n LOOP
            d := r.demands[i];
            w := ws[places[first - n + i]];
            w.bounds := bounds[8 * i - 7 : 8 * i]; -- of the limit that it has
            w := sluice.as_is_v2(w, sluice.view_v2(sluice.fresh_v2(
                d.algorithm, d.amount, d.period, d.burst, d.calendar, d.zone, bounds[8 * i - 7 : 8 * i]
            ), now), now);
            mine[i] := w;
            times[t] := greatest(times[t], w.now);
            namespaces[out + i] := d.namespace;
            entities[out + i] := d.entity;
            resources[out + i] := d.resource;
            names[out + i] := d.limit_name;
            algorithms[out + i] := w.algorithm;
            amounts[out + i] := w.amount;
            periods[out + i] := w.period;
            bursts[out + i] := w.burst;
            calendars[out + i] := w.calendar;
            zones[out + i] := w.zone;
            charged[out + i] := charges[i];
            flags[out + i] := d.flags;
            consumed[out + i] := 0;
            returned[out + i] := 0;
            remaining[out + i] := 0;
            frees[out + i] := 0;
            resets[out + i] := 0;
            freed[out + i] := false;
            IF w.algorithm = 2 AND w.ends IS NULL AND charges[i] > d.charge THEN
                statuses[t] := 5;
            END IF;
        END LOOP;
        demand_counts[t] := n;
        out := out + n;
        CONTINUE WHEN statuses[t] <> 0;

        takens[t] := r.taken;
        ends := CASE WHEN actions[t] = 1 THEN times[t] + greatest(keeps[t], 1) ELSE r.expires END;
        FOR i IN 1 .. n LOOP
            d := r.demands[i];
            w := mine[i];
            before := w.used;
            IF r.ended <> 0 OR d.consumed = 0 THEN
                NULL; -- a shadow's bucket may have nothing of the lease
            ELSIF (d.algorithm = 3) <> (w.algorithm = 3) THEN
                -- A bucket that has become concurrency, or has been, was started
                -- anew: the change is booked, and nothing comes back.
                IF d.algorithm <> 3 THEN
                    consumed[out - n + i] := charges[i] - d.charge;
                END IF;
            ELSE
                IF w.algorithm <> 3 THEN
                    IF charges[i] > d.charge THEN
                        w := sluice.spend_v2(w, charges[i] - d.charge);
                        consumed[out - n + i] := w.used - before;
                    ELSIF charges[i] < d.charge THEN
                        w := sluice.refund_v2(w, d.charge - charges[i], r.taken);
                        consumed[out - n + i] := charges[i] - d.charge;
                        returned[out - n + i] := before - w.used;
                    END IF;
                ELSIF actions[t] = 1 THEN
                    w := sluice.extend_v2(w, r.id, ends);
                ELSIF actions[t] >= 2 THEN
                    w := sluice.alight_v2(w, r.id);
                    IF actions[t] = 3 THEN
                        consumed[out - n + i] := w.used - before;
                        returned[out - n + i] := before - w.used;
                    END IF;
                END IF;
                IF w.changed THEN
                    ws[places[first - n + i]] := sluice.store_v2(w);
                END IF;
            END IF;
            freed[out - n + i] := w.used < before;
            remaining[out - n + i] := w.capacity - w.used;
            frees[out - n + i] := remaining[out - n + i] - w.held;
            resets[out - n + i] := sluice.later_v2(w, sluice.reset_v2(w));
            d.charge := charges[i];
            r.demands[i] := d;
        END LOOP;
        IF r.ended = 0 THEN
            UPDATE sluice.receipt x SET
                demands = r.demands, expires = ends, ended = CASE WHEN actions[t] >= 2 THEN actions[t] ELSE 0 END
            WHERE x.id = r.id;
        END IF;
    END LOOP;
    IF ns IS NOT NULL THEN
        PERFORM sluice.save_v2(ns, es, rs, ls, ws, tids);
    END IF;
END $$;
