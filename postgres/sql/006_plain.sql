-- take_plain_v1 decides takes that want nothing but tokens, of token buckets
-- and fixed windows: no request ids, leases, shadows or anything else that a
-- take can have. It gives the answers that take_v1 would, several times
-- faster, because it works on arrays of numbers and leaves to the caller
-- whatever follows from the numbers it gives.
--
-- Takes have sizes demands each; places says of each demand which bucket it
-- names, and rules of each bucket under which limit.
--
-- With glance, the buckets are first only looked at, and locked if there is
-- anything to write, so that refusals cost no more than reading.
--
-- Verdicts: 0 refused, 1 allowed, 6 not decided, because a bucket was written
-- under another limit or has something held: ask take_v1.
--
-- used is of each demand's bucket, after the take; rems and ats are of each
-- bucket.
CREATE FUNCTION sluice.take_plain_v1(
    given bigint, patience text, glance boolean,
    namespaces text[], entities text[], resources text[], names text[], rules int[],
    algorithms smallint[], amounts bigint[], periods bigint[], bursts bigint[],
    sizes int[], places int[], costs bigint[],
    OUT now bigint, OUT verdicts smallint[], OUT used bigint[], OUT rems bigint[], OUT ats bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    rates   bigint[]; -- of each limit, in lowest terms
    pers    bigint[];
    caps    bigint[];
    tids    tid[];    -- of each bucket
    plain   boolean[];
    uses    bigint[];
    olds    bigint[]; -- uses before the takes
    rate    bigint;
    per     bigint;
    elapsed bigint;
    n       bigint;
    r       int;
    p       int;
    first   int;
    last    int;
    verdict smallint;
    added   int;
    wanted  int;
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM sluice.ready_v1(patience);
    END IF;
    FOR i IN 1 .. cardinality(algorithms) LOOP
        n := CASE WHEN algorithms[i] = 0 THEN gcd(amounts[i], periods[i]) ELSE 1 END;
        rates[i] := amounts[i] / n;
        pers[i] := periods[i] / n;
        caps[i] := CASE WHEN bursts[i] = 0 THEN amounts[i] ELSE bursts[i] END;
    END LOOP;

    <<passes>>
    FOR pass IN CASE WHEN glance THEN 0 ELSE 1 END .. 1 LOOP
        -- The lateral queries make this a loop over the keys, in their order.
        IF pass = 1 THEN
            SELECT array_agg(b.ctid), array_agg(coalesce(b.used, 0)), array_agg(coalesce(b.rem, 0)),
                array_agg(coalesce(b.at, 0)), array_agg(b.plain IS NOT false)
            INTO tids, uses, rems, ats, plain
            FROM unnest(namespaces, entities, resources, names, rules) k (namespace, entity, resource, limit_name, rule)
            LEFT JOIN LATERAL (
                SELECT b.ctid, b.used, b.rem, b.at,
                    b.algorithm = algorithms[k.rule] AND b.amount = amounts[k.rule] AND b.period = periods[k.rule]
                        AND b.burst = bursts[k.rule] AND b.calendar = 0
                        AND b.holds IS NULL AND b.recall_cost = 0 AS plain
                FROM sluice.bucket b
                WHERE b.namespace = k.namespace AND b.entity = k.entity
                    AND b.resource = k.resource AND b.limit_name = k.limit_name
                FOR NO KEY UPDATE
            ) b ON true;
        ELSE
            SELECT array_agg(b.ctid), array_agg(coalesce(b.used, 0)), array_agg(coalesce(b.rem, 0)),
                array_agg(coalesce(b.at, 0)), array_agg(b.plain IS NOT false)
            INTO tids, uses, rems, ats, plain
            FROM unnest(namespaces, entities, resources, names, rules) k (namespace, entity, resource, limit_name, rule)
            LEFT JOIN LATERAL (
                SELECT b.ctid, b.used, b.rem, b.at,
                    b.algorithm = algorithms[k.rule] AND b.amount = amounts[k.rule] AND b.period = periods[k.rule]
                        AND b.burst = bursts[k.rule] AND b.calendar = 0
                        AND b.holds IS NULL AND b.recall_cost = 0 AS plain
                FROM sluice.bucket b
                WHERE b.namespace = k.namespace AND b.entity = k.entity
                    AND b.resource = k.resource AND b.limit_name = k.limit_name
            ) b ON true;
        END IF;
        now := sluice.clock_v1(given);

        -- Bring each bucket to the present: Spec.View.
        FOR i IN 1 .. cardinality(names) LOOP
            r := rules[i];
            per := pers[r];
            n := uses[i];
            IF n > 0 AND plain[i] THEN
                elapsed := greatest(now - ats[i], 0);
                IF algorithms[r] <> 0 THEN
                    IF elapsed >= per THEN -- another window
                        n := 0;
                    END IF;
                ELSE
                    rate := rates[r];
                    IF elapsed / per > n / rate THEN -- repaid long ago
                        n := 0;
                    ELSE
                        rems[i] := elapsed % per * rate + rems[i];
                        n := n - elapsed / per * rate - rems[i] / per;
                        rems[i] := rems[i] % per;
                        ats[i] := ats[i] + elapsed;
                    END IF;
                END IF;
            END IF;
            IF n <= 0 THEN -- full, as good as absent
                n := 0;
                rems[i] := 0;
                ats[i] := CASE WHEN algorithms[r] = 0 THEN now ELSE now - sluice.floor_mod_v1(now, per) END;
            END IF;
            uses[i] := n;
        END LOOP;
        olds := uses;

        -- Decide.
        last := 0;
        FOR t IN 1 .. cardinality(sizes) LOOP
            first := last + 1;
            last := last + sizes[t];
            verdict := 1;
            FOR d IN first .. last LOOP
                p := places[d];
                IF NOT plain[p] THEN
                    verdict := 6;
                    EXIT;
                ELSIF uses[p] + costs[d] > caps[rules[p]] THEN
                    verdict := 0;
                END IF;
            END LOOP;
            CONTINUE passes WHEN verdict = 1 AND pass = 0;
            verdicts[t] := verdict;
            IF verdict = 1 AND first = last THEN -- most of them
                used[last] := uses[p] + costs[last];
                uses[p] := used[last];
                CONTINUE;
            END IF;
            FOR d IN first .. last LOOP
                p := places[d];
                IF verdict = 1 THEN
                    uses[p] := uses[p] + costs[d];
                END IF;
                used[d] := uses[p];
            END LOOP;
        END LOOP;
        EXIT WHEN pass = 0; -- nothing to write
    END LOOP;

    IF uses = olds THEN
        RETURN;
    END IF;
    IF array_position(tids, NULL) IS NOT NULL THEN
        SELECT count(*) INTO wanted FROM unnest(tids, uses, olds) k (tid, used, old) WHERE k.tid IS NULL AND k.used <> k.old;
        INSERT INTO sluice.bucket (
            namespace, entity, resource, limit_name, algorithm, amount, period, burst, calendar, zone,
            used, rem, at, consumed, expires
        )
        SELECT k.namespace, k.entity, k.resource, k.limit_name,
            algorithms[k.rule], amounts[k.rule], periods[k.rule], bursts[k.rule], 0, '',
            k.used, k.rem, k.at, k.used, sluice.full_v1(algorithms[k.rule], rates[k.rule], pers[k.rule], k.used, k.at)
        FROM unnest(namespaces, entities, resources, names, rules, tids, uses, olds, rems, ats) WITH ORDINALITY
            k (namespace, entity, resource, limit_name, rule, tid, used, old, rem, at, i)
        WHERE k.tid IS NULL AND k.used <> k.old
        ORDER BY k.i
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS added = ROW_COUNT;
        IF added < wanted THEN
            PERFORM sluice.again_v1();
        END IF;
    END IF;
    UPDATE sluice.bucket b SET
        used = k.used, rem = k.rem, at = k.at,
        consumed = CASE WHEN k.old = 0 THEN k.used ELSE least(b.consumed + k.used - k.old, 9007199254740991) END,
        expires = sluice.full_v1(algorithms[k.rule], rates[k.rule], pers[k.rule], k.used, k.at)
    FROM unnest(tids, uses, olds, rems, ats, rules) k (tid, used, old, rem, at, rule)
    WHERE k.used <> k.old AND b.ctid = k.tid;
END $$;

-- full_v1 is when a bucket will be full, at the latest: the end of a window, or
-- when all that is used is repaid.
CREATE FUNCTION sluice.full_v1(algorithm smallint, rate bigint, per bigint, used bigint, at bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT at + CASE
        WHEN algorithm <> 0 THEN per
        WHEN used / rate < 4503599627370496 / per THEN (used / rate + 1) * per
        ELSE 4503599627370496
    END
$$;
