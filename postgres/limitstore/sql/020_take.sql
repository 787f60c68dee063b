-- take_v2 decides any takes, one after the other, as storetest.Model.Take does.
-- take_plain_v2 is quicker for those that are simple.
--
-- Takes have sizes demands each; places and rules say of each demand which
-- bucket and which limit it names. Flags of a take: 1 peek, 2 up to, 4 lease.
-- Flags of a demand: 1 shadow, 2 count refused; the others are only kept. A take
-- whose ticket has node and sequence 0 has none.
--
-- With glance, the buckets are first only looked at, and locked if there is
-- anything to write, so that peeks and refusals cost no more than reading.
--
-- Verdicts: 0 refused, 1 allowed, 2 and 3 the same as answers to an earlier
-- take with this id, 4 the id was used for another take, 5 the bounds of a
-- calendar window are not those of now, and nothing was done. roomy says where a
-- ticket was taken out though its take was refused.
CREATE FUNCTION sluice.take_v2(
    given bigint, patience text, glance boolean,
    namespaces text[], entities text[], resources text[], names text[],
    algorithms smallint[], amounts bigint[], periods bigint[], bursts bigint[],
    calendars smallint[], zones text[], bounds bigint[],
    sizes int[], take_flags smallint[], keeps bigint[], ids text[], prints bytea[],
    ticket_nodes bigint[], ticket_seqs bigint[], ticket_ranks bigint[],
    places int[], rules int[], costs bigint[], demand_flags smallint[],
    OUT now bigint, OUT verdicts smallint[], OUT times bigint[],
    OUT fits boolean[], OUT helds boolean[], OUT roomy boolean[],
    OUT consumed bigint[], OUT remaining bigint[], OUT frees bigint[], OUT retries bigint[], OUT resets bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ws       sluice.working_v2[];
    tids     tid[];
    models   sluice.working_v2[];
    mine     sluice.working_v2[]; -- the buckets of one take
    asks     bigint[];            -- what it asks of them
    w        sluice.working_v2;
    old      sluice.receipt;
    receipts sluice.receipt[];
    first    int;
    last     int;
    j        int;
    n        bigint;
    charge   bigint;
    shadow   boolean;
    ticket   boolean; -- the take has one,
    waits    boolean; -- it is to stay where it does not fit,
    stays    boolean; -- in this bucket,
    leaves   boolean; -- or is there and must go
    repaced  boolean; -- it adopted a limit with another rate
    recalls  boolean;
    allowed  boolean;
    effect   boolean; -- of one take
    writes   boolean; -- of any
    lost     boolean; -- in the calendar
BEGIN
    PERFORM sluice.ready_v1(patience);
    <<passes>>
    FOR pass IN CASE WHEN glance THEN 0 ELSE 1 END .. 1 LOOP
        SELECT l.ws, l.tids INTO ws, tids
        FROM sluice.load_v2(pass = 1, namespaces, entities, resources, names) l;
        now := sluice.clock_v1(given);
        models := sluice.models_v2(algorithms, amounts, periods, bursts, calendars, zones, bounds, now);
        writes := false;
        last := 0;

        FOR t IN 1 .. cardinality(sizes) LOOP
            first := last + 1;
            last := last + sizes[t];
            times[t] := now;
            ticket := ticket_nodes[t] <> 0 OR ticket_seqs[t] <> 0;

            IF ids[t] <> '' AND take_flags[t] & 1 = 0 THEN
                SELECT r.* INTO old FROM sluice.receipt r WHERE r.id = ids[t] AND r.expires > now
                    AND r.ended <> 3; -- one that was released is as if it had never been
                IF FOUND THEN
                    verdicts[t] := CASE WHEN old.print <> prints[t] THEN 4 WHEN old.allowed THEN 3 ELSE 2 END;
                    FOR i IN first .. last LOOP
                        fits[i] := coalesce((old.demands[i - first + 1]).fits, false);
                        helds[i] := coalesce((old.demands[i - first + 1]).held, false);
                        roomy[i] := false;
                        consumed[i] := coalesce((old.demands[i - first + 1]).consumed, 0);
                        remaining[i] := coalesce((old.demands[i - first + 1]).remaining, 0);
                        frees[i] := remaining[i]; -- what was held is not remembered
                        retries[i] := coalesce((old.demands[i - first + 1]).retry, 0);
                        resets[i] := coalesce((old.demands[i - first + 1]).reset, 0);
                    END LOOP;
                    CONTINUE;
                END IF;
            END IF;

            -- What is asked of each bucket.
            lost := false;
            charge := CASE WHEN costs[first] = 0 THEN 1000 ELSE costs[first] END;
            n := charge;
            FOR i IN first .. last LOOP
                j := i - first + 1;
                w := sluice.under_v2(ws[places[i]], models[rules[i]], now);
                IF ticket THEN
                    w := sluice.stand_v2(w, ticket_nodes[t], ticket_seqs[t], ticket_ranks[t]);
                END IF;
                lost := lost OR w.algorithm = 2 AND w.ends IS NULL;
                times[t] := greatest(times[t], w.now);
                mine[j] := w;
                asks[j] := CASE WHEN costs[i] = 0 THEN 1000 ELSE costs[i] END;
                IF demand_flags[i] & 1 = 0 THEN
                    n := least(n, w.capacity - w.used - w.held - w.ahead);
                END IF;
            END LOOP;
            IF take_flags[t] & 2 <> 0 THEN
                IF n < charge THEN
                    n := greatest(n, 0) / 1000 * 1000;
                END IF;
                IF n = 0 THEN
                    n := least(charge, 1000);
                END IF;
                FOR i IN 1 .. sizes[t] LOOP
                    asks[i] := n;
                END LOOP;
            END IF;

            -- Whether each has room.
            allowed := true;
            waits := true;
            FOR i IN first .. last LOOP
                j := i - first + 1;
                w := mine[j];
                shadow := demand_flags[i] & 1 <> 0;
                fits[i] := asks[j] <= w.capacity - w.used - w.held - w.ahead;
                helds[i] := NOT fits[i] AND asks[j] <= w.capacity - w.used;
                allowed := allowed AND (fits[i] OR shadow);
                waits := waits AND (asks[j] <= w.capacity OR shadow);
            END LOOP;
            waits := waits AND NOT allowed;
            verdicts[t] := CASE WHEN lost THEN 5 WHEN allowed THEN 1 ELSE 0 END;

            -- Carry it out, and say what the buckets are like afterwards.
            effect := false;
            FOR i IN first .. last LOOP
                j := i - first + 1;
                w := mine[j];
                shadow := demand_flags[i] & 1 <> 0;
                consumed[i] := 0;
                roomy[i] := false;
                IF take_flags[t] & 1 = 0 AND NOT lost THEN
                    n := CASE
                        WHEN allowed AND fits[i] THEN asks[j]
                        WHEN NOT allowed AND demand_flags[i] & 2 <> 0 AND w.algorithm <> 3
                            THEN CASE WHEN costs[i] = 0 THEN 1000 ELSE costs[i] END
                        ELSE 0
                    END;
                    recalls := n = 0 AND NOT allowed AND helds[i] AND NOT shadow AND w.held > 0;
                    stays := ticket AND waits AND NOT fits[i] AND NOT shadow;
                    -- Spec.Repaces
                    repaced := n = 0 AND NOT allowed AND NOT fits[i] AND NOT shadow
                        AND w.algorithm = 0 AND coalesce((ws[places[i]]).algorithm, 3) = 0
                        AND (w.rate, w.per) <> ((ws[places[i]]).rate, (ws[places[i]]).per);
                    leaves := ticket AND NOT stays AND sluice.ticket_v2(w.tickets, ticket_nodes[t], ticket_seqs[t]) IS NOT NULL;
                    IF n > 0 OR recalls OR stays OR leaves OR repaced THEN
                        CONTINUE passes WHEN pass = 0;
                        writes := true;
                        effect := effect OR n > 0;
                        consumed[i] := -w.used;
                        IF recalls THEN
                            w := sluice.recall_v2(w, asks[j]);
                        ELSIF n > 0 AND w.algorithm = 3 THEN
                            w := sluice.board_v2(w, ids[t], n, times[t] + keeps[t]);
                        ELSIF n > 0 THEN
                            w := sluice.spend_v2(w, n);
                        END IF;
                        IF stays THEN
                            w := sluice.queue_v2(w, ticket_nodes[t], ticket_seqs[t], asks[j], w.now + 5000000);
                        ELSIF leaves THEN
                            w := sluice.leave_v2(w, ticket_nodes[t], ticket_seqs[t]);
                            roomy[i] := NOT allowed;
                        END IF;
                        w.changed := true;
                        consumed[i] := consumed[i] + w.used;
                        ws[places[i]] := CASE WHEN w.still THEN sluice.store_v2(w) ELSE w END;
                    END IF;
                END IF;
                remaining[i] := w.capacity - w.used;
                frees[i] := remaining[i] - w.held;
                retries[i] := CASE WHEN fits[i] THEN 0 ELSE sluice.later_v2(w, sluice.retry_v2(w, asks[j])) END;
                resets[i] := sluice.reset_v2(w);
                IF w.behind > 0 THEN
                    resets[i] := sluice.later_v2(w, resets[i]);
                END IF;
            END LOOP;

            IF ids[t] <> '' AND take_flags[t] & 1 = 0 AND (allowed OR effect) AND NOT lost THEN
                CONTINUE passes WHEN pass = 0;
                writes := true;
                receipts := receipts || ROW(
                    ids[t], prints[t], times[t], times[t], times[t] + keeps[t],
                    allowed, allowed AND take_flags[t] & 4 <> 0, 0,
                    (
                        SELECT array_agg(ROW(
                            namespaces[places[i]], entities[places[i]], resources[places[i]], names[places[i]],
                            algorithms[rules[i]], amounts[rules[i]], periods[rules[i]], bursts[rules[i]],
                            calendars[rules[i]], zones[rules[i]], costs[i], demand_flags[i],
                            fits[i], helds[i], consumed[i], remaining[i], retries[i], resets[i], consumed[i]
                        )::sluice.receipt_demand ORDER BY i)
                        FROM generate_series(first, last) i
                    )
                )::sluice.receipt;
            END IF;
        END LOOP;
        EXIT WHEN pass = 0; -- nothing to write
    END LOOP;

    IF writes THEN
        PERFORM sluice.save_v2(namespaces, entities, resources, names, ws, tids);
        PERFORM sluice.keep_v2(receipts, now);
    END IF;
END $$;

-- keep_v2 inserts receipts, in the place of expired and released ones of the
-- same id.
CREATE FUNCTION sluice.keep_v2(receipts sluice.receipt[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n int;
BEGIN
    IF receipts IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO sluice.receipt AS r SELECT k.* FROM unnest(receipts) k ORDER BY k.id
    ON CONFLICT (id) DO UPDATE SET
        print = excluded.print, taken = excluded.taken, due = excluded.due, expires = excluded.expires,
        allowed = excluded.allowed, leased = excluded.leased, ended = excluded.ended, demands = excluded.demands
    WHERE r.expires <= keep_v2.now OR r.ended = 3;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < cardinality(receipts) THEN
        PERFORM sluice.again_v2();
    END IF;
END $$;
