-- adjust_v2 consumes or, where costs are negative, refunds without asking, as
-- storetest.Model.Adjust does. Each bucket has its limit in rules. If lost,
-- nothing was done, because bounds do not say which calendar window it is at
-- that time.
CREATE FUNCTION sluice.adjust_v2(
    given bigint, patience text,
    namespaces text[], entities text[], resources text[], names text[],
    algorithms smallint[], amounts bigint[], periods bigint[], bursts bigint[],
    calendars smallint[], zones text[], bounds bigint[],
    rules int[], costs bigint[],
    OUT now bigint, OUT lost boolean, OUT latest bigint,
    OUT consumed bigint[], OUT returned bigint[], OUT remaining bigint[], OUT frees bigint[], OUT resets bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ws     sluice.working_v2[];
    tids   tid[];
    models sluice.working_v2[];
    w      sluice.working_v2;
    before bigint;
BEGIN
    PERFORM sluice.ready_v1(patience);
    SELECT l.ws, l.tids INTO ws, tids
    FROM sluice.load_v2(true, namespaces, entities, resources, names) l;
    now := sluice.clock_v1(given);
    models := sluice.models_v2(algorithms, amounts, periods, bursts, calendars, zones, bounds, now);
    latest := now;
    lost := false;
    FOR i IN 1 .. cardinality(names) LOOP
        w := sluice.under_v2(ws[i], models[rules[i]], now);
        latest := greatest(latest, w.now);
        lost := lost OR w.algorithm = 2 AND w.ends IS NULL;
        before := w.used;
        returned[i] := 0;
        IF costs[i] > 0 THEN
            w := sluice.spend_v2(w, costs[i]);
            consumed[i] := w.used - before;
        ELSE
            consumed[i] := costs[i];
            IF costs[i] < 0 THEN
                w := sluice.refund_v2(w, -costs[i], w.now);
                returned[i] := before - w.used;
            END IF;
        END IF;
        IF w.changed THEN
            ws[i] := sluice.store_v2(w);
        END IF;
        remaining[i] := w.capacity - w.used;
        frees[i] := remaining[i] - w.held;
        resets[i] := sluice.later_v2(w, sluice.reset_v2(w));
    END LOOP;
    IF NOT lost THEN
        PERFORM sluice.save_v2(namespaces, entities, resources, names, ws, tids);
    END IF;
END $$;

-- forget_v2 makes buckets as new, but for what is held and who waits:
-- storetest.Model.Reset.
CREATE FUNCTION sluice.forget_v2(
    given bigint, patience text, namespaces text[], entities text[], resources text[], names text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ws   sluice.working_v2[];
    tids tid[];
    now  bigint;
    w    sluice.working_v2;
BEGIN
    PERFORM sluice.ready_v1(patience);
    SELECT l.ws, l.tids INTO ws, tids
    FROM sluice.load_v2(true, namespaces, entities, resources, names) l;
    now := sluice.clock_v1(given);
    FOR i IN 1 .. cardinality(names) LOOP
        CONTINUE WHEN tids[i] IS NULL;
        w := ws[i];
        w := sluice.view_v2(w, now);
        IF w.held = 0 AND w.tickets IS NULL THEN
            DELETE FROM sluice.flight f WHERE f.bucket = w.id AND w.algorithm = 3;
            DELETE FROM sluice.bucket b WHERE b.ctid = tids[i];
            CONTINUE;
        END IF;
        w.used := 0; -- Spec.Reset
        w.rem := 0;
        w.consumed := 0;
        w.recalled := 0;
        w.recall_cost := 0;
        w.counts := CASE WHEN w.algorithm = 1 THEN array_fill(0::bigint, ARRAY[33]) END;
        w.anew := w.algorithm = 3;
        IF w.algorithm = 2 AND w.ends IS NULL THEN -- whichever window it is, nothing is used
            w.at := 0;
            w.ends := 0;
        END IF;
        w.changed := true;
        ws[i] := w;
    END LOOP;
    PERFORM sluice.save_v2(namespaces, entities, resources, names, ws, tids);
END $$;
