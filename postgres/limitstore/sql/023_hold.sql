-- grant_v2 gives tokens to nodes in advance, as storetest.Model.Hold does. A
-- hold that the request names as its previous one is closed first. If lost,
-- nothing was done, because bounds do not say which calendar window it is at
-- that time.
CREATE FUNCTION sluice.grant_v2(
    given bigint, patience text,
    namespaces text[], entities text[], resources text[], names text[],
    algorithms smallint[], amounts bigint[], periods bigint[], bursts bigint[],
    calendars smallint[], zones text[], bounds bigint[],
    places int[], rules int[], nodes bigint[], seqs bigint[], leasts bigint[], mosts bigint[], ttls bigint[],
    previous_nodes bigint[], previous_seqs bigint[], spents bigint[],
    OUT now bigint, OUT lost boolean, OUT latest bigint,
    OUT granted bigint[], OUT remaining bigint[], OUT frees bigint[], OUT ends bigint[], OUT times bigint[],
    OUT retries bigint[], OUT recalled boolean[], OUT helds boolean[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ws     sluice.working_v2[];
    tids   tid[];
    models sluice.working_v2[];
    w      sluice.working_v2;
    least_ bigint;
    n      bigint;
BEGIN
    PERFORM sluice.ready_v1(patience);
    SELECT l.ws, l.tids INTO ws, tids
    FROM sluice.load_v2(true, namespaces, entities, resources, names) l;
    now := sluice.clock_v1(given);
    models := sluice.models_v2(algorithms, amounts, periods, bursts, calendars, zones, bounds, now);
    latest := now;
    lost := false;
    FOR i IN 1 .. cardinality(places) LOOP
        w := ws[places[i]];
        IF (previous_nodes[i] <> 0 OR previous_seqs[i] <> 0) AND (w.holds IS NOT NULL OR w.tickets IS NOT NULL) THEN
            w := sluice.return_v2(sluice.view_v2(w, now), previous_nodes[i], previous_seqs[i], spents[i]);
            IF w.changed THEN
                ws[places[i]] := sluice.store_v2(w);
            END IF;
        END IF;
        w := sluice.under_v2(ws[places[i]], models[rules[i]], now);
        latest := greatest(latest, w.now);
        lost := lost OR w.algorithm = 2 AND w.ends IS NULL;
        times[i] := w.now;
        recalled[i] := w.recalled > w.now OR w.tickets IS NOT NULL;
        least_ := greatest(leasts[i], 1);
        n := least(mosts[i], w.capacity - w.used - w.held);
        -- Spec.Grantable
        IF w.algorithm IN (0, 2) AND n >= least_ AND NOT recalled[i]
            AND coalesce(cardinality(w.holds), 0) < 4 * 256 THEN
            granted[i] := n;
            ends[i] := w.now + ttls[i];
            IF w.algorithm = 2 THEN
                ends[i] := least(ends[i], w.ends);
            END IF;
            retries[i] := 0;
            helds[i] := false;
            w := sluice.hold_v2(w, nodes[i], seqs[i], n, ends[i]);
            ws[places[i]] := w;
        ELSE
            granted[i] := 0;
            ends[i] := 0;
            retries[i] := sluice.never_v2();
            helds[i] := false;
            IF w.algorithm IN (0, 2) THEN
                -- Spec.HoldableIn
                helds[i] := least_ > w.capacity - w.used - w.held - w.ahead AND least_ <= w.capacity - w.used;
                retries[i] := sluice.retry_v2(w, least_);
                IF recalled[i] THEN
                    retries[i] := greatest(retries[i], w.recalled - w.now, w.line_ends - w.now);
                END IF;
                IF coalesce(cardinality(w.holds), 0) >= 4 * 256 THEN
                    retries[i] := greatest(retries[i], w.holds[4] - w.now);
                END IF;
                retries[i] := sluice.later_v2(w, retries[i]);
            END IF;
        END IF;
        remaining[i] := w.capacity - w.used;
        frees[i] := remaining[i] - w.held;
    END LOOP;
    IF NOT lost THEN
        PERFORM sluice.save_v2(namespaces, entities, resources, names, ws, tids);
    END IF;
END $$;

-- give_back_v2 closes holds and removes tickets, as storetest.Model.Return does.
CREATE FUNCTION sluice.give_back_v2(
    given bigint, patience text, namespaces text[], entities text[], resources text[], names text[],
    places int[], nodes bigint[], seqs bigint[], spents bigint[]
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
    FOR i IN 1 .. cardinality(places) LOOP
        w := ws[places[i]];
        IF w.holds IS NOT NULL OR w.tickets IS NOT NULL THEN
            w := sluice.return_v2(sluice.view_v2(w, now), nodes[i], seqs[i], spents[i]);
            IF w.changed THEN
                ws[places[i]] := sluice.store_v2(w);
            END IF;
        END IF;
    END LOOP;
    PERFORM sluice.save_v2(namespaces, entities, resources, names, ws, tids);
END $$;
