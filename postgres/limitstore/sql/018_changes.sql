-- The changes that package bucket makes to a state, on working copies.

-- spend_v2 consumes unconditionally, up to the cap on debt: Spec.Take. What
-- was consumed is the difference in used.
CREATE FUNCTION sluice.spend_v2(w sluice.working_v2, cost bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n bigint := greatest(0, least(cost, w.capacity + sluice.max_tokens_v2() - w.used));
BEGIN
    w.used := w.used + n;
    IF n >= w.recall_cost THEN
        w.recalled := 0;
        w.recall_cost := 0;
    END IF;
    IF w.algorithm = 1 THEN
        w.counts[w.at % 33 + 1] := w.counts[w.at % 33 + 1] + n;
    END IF;
    w.consumed := sluice.saturate_v2(w.consumed + n);
    w.changed := true;
    w.still := false;
    RETURN w;
END $$;

-- refund_v2 gives back up to amount of what was taken at or after since:
-- Spec.Refund. What came back is the difference in used; all of amount is no
-- longer consumed. Where nothing comes back, the bucket's time stands still.
CREATE FUNCTION sluice.refund_v2(w sluice.working_v2, amount bigint, since bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n    bigint := least(amount, w.used);
    rest bigint;
    part bigint := w.at;
    here bigint;
BEGIN
    w.changed := true;
    IF w.algorithm = 1 AND sluice.part_v2(w.period, since) < w.at - 32 OR w.algorithm = 2 AND since < w.at OR n <= 0 THEN
        w.was_consumed := greatest(w.was_consumed - amount, 0);
        RETURN w;
    END IF;
    w.still := false;
    IF w.algorithm = 1 THEN -- out of the newest counts
        rest := n;
        WHILE rest > 0 LOOP
            here := least(rest, w.counts[part % 33 + 1]);
            w.counts[part % 33 + 1] := w.counts[part % 33 + 1] - here;
            rest := rest - here;
            part := part - 1;
        END LOOP;
    END IF;
    w.used := w.used - n;
    IF w.used = 0 THEN
        w.rem := 0;
    END IF;
    -- The view has added the holds that have expired since.
    w.consumed := sluice.saturate_v2(greatest(w.was_consumed - amount, 0) + w.consumed - w.was_consumed);
    RETURN w;
END $$;

-- board_v2 puts a lease into a concurrency limit: Spec.Board. It writes the
-- flight at once, so it is only for takes that are allowed.
CREATE FUNCTION sluice.board_v2(w sluice.working_v2, boarding text, cost bigint, expires bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    w := sluice.disembark_v2(w);
    INSERT INTO sluice.flight (bucket, lease, cost, expires) VALUES (w.id, boarding, board_v2.cost, board_v2.expires);
    w.used := w.used + cost;
    w.consumed := sluice.saturate_v2(w.consumed + cost);
    RETURN w;
END $$;

-- disembark_v2 removes the flights that are over, which view_v2 has taken off
-- already: commitFlights. It gives a new bucket its number.
CREATE FUNCTION sluice.disembark_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF w.id IS NULL THEN
        w.id := nextval('sluice.bucket_id');
    ELSE
        DELETE FROM sluice.flight f WHERE f.bucket = w.id AND (f.expires <= w.now OR w.anew);
    END IF;
    w.anew := false;
    w.changed := true;
    w.still := false;
    RETURN w;
END $$;

-- in_flight_v2 reports whether a lease is in a concurrency limit.
CREATE FUNCTION sluice.in_flight_v2(w sluice.working_v2, wanted text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN NOT w.anew AND EXISTS (
        SELECT FROM sluice.flight f WHERE f.bucket = w.id AND f.lease = wanted AND f.expires > w.now
    );
END $$;

-- alight_v2 takes a lease out again, if it is there: Spec.Alight. What it freed
-- is the difference in used.
CREATE FUNCTION sluice.alight_v2(w sluice.working_v2, leaving text) RETURNS sluice.working_v2
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    freed bigint;
BEGIN
    IF NOT sluice.in_flight_v2(w, leaving) THEN
        RETURN w;
    END IF;
    w := sluice.disembark_v2(w);
    WITH gone AS (
        DELETE FROM sluice.flight f WHERE f.bucket = w.id AND f.lease = leaving RETURNING f.cost
    )
    SELECT coalesce(sum(gone.cost), 0) INTO freed FROM gone;
    w.used := w.used - freed;
    RETURN w;
END $$;

-- extend_v2 moves a lease's expiry, if it is still there: Spec.Extend.
CREATE FUNCTION sluice.extend_v2(w sluice.working_v2, staying text, expires bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT sluice.in_flight_v2(w, staying) THEN
        RETURN w;
    END IF;
    w := sluice.disembark_v2(w);
    UPDATE sluice.flight f SET expires = extend_v2.expires WHERE f.bucket = w.id AND f.lease = staying;
    RETURN w;
END $$;

-- return_v2 takes a ticket out, or closes a hold of which spent was used:
-- Spec.Leave and Spec.Return. An expired or unknown one is ignored.
CREATE FUNCTION sluice.return_v2(w sluice.working_v2, node bigint, seq bigint, spent bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n bigint;
BEGIN
    IF sluice.ticket_v2(w.tickets, node, seq) IS NOT NULL THEN
        RETURN sluice.leave_v2(w, node, seq);
    END IF;
    FOR i IN 1 .. coalesce(cardinality(w.holds), 0) BY 4 LOOP
        CONTINUE WHEN w.holds[i] <> node OR w.holds[i + 1] <> seq;
        n := least(greatest(spent, 0), w.holds[i + 2]);
        w.held := w.held - w.holds[i + 2];
        w.used := w.used + n;
        w.consumed := sluice.saturate_v2(w.consumed + n);
        w.holds := nullif(w.holds[: i - 1] || w.holds[i + 4 :], '{}');
        w.changed := true;
        w.still := false;
        EXIT;
    END LOOP;
    RETURN w;
END $$;

-- hold_v2 moves amount to a node's hands: Spec.Hold, with an expiry that is not
-- past the end of a fixed window.
CREATE FUNCTION sluice.hold_v2(w sluice.working_v2, node bigint, seq bigint, amount bigint, expires bigint)
RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place int := 1;
BEGIN
    WHILE place < coalesce(cardinality(w.holds), 0) AND w.holds[place + 3] <= expires LOOP
        place := place + 4;
    END LOOP;
    w.holds := w.holds[: place - 1] || ARRAY[node, seq, amount, expires] || w.holds[place :];
    w.held := w.held + amount;
    w.changed := true;
    w.still := false;
    RETURN w;
END $$;

-- recall_v2 marks the bucket after a refusal that held tokens caused:
-- Spec.Recall, without its condition.
CREATE FUNCTION sluice.recall_v2(w sluice.working_v2, cost bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql STABLE AS $$
DECLARE
    until bigint := w.now + sluice.retry_v2(w, cost);
BEGIN
    IF w.recalled > w.now THEN
        until := greatest(until, w.recalled);
        cost := greatest(cost, w.recall_cost);
    END IF;
    w.recalled := until;
    w.recall_cost := cost;
    w.changed := true;
    RETURN w;
END $$;

-- adopt_v2 turns a bucket into one under the limit of model: Spec.Adopt.
CREATE FUNCTION sluice.adopt_v2(w sluice.working_v2, model sluice.working_v2, now bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql STABLE AS $$
DECLARE
    n sluice.working_v2 := sluice.store_v2(model);
BEGIN
    n.id := w.id;
    n.anew := w.anew;
    n.consumed := w.consumed;
    n.tickets := w.tickets;
    IF w.algorithm = 0 AND n.algorithm = 0 THEN
        n.used := w.used;
        -- As time, what remains may mean more than a millitoken to the new
        -- rate, of which it must not mint more than one.
        n.at := w.now - least(w.rem / w.rate, n.per / n.rate);
        n.holds := w.holds;
        n.recalled := w.recalled;
        n.recall_cost := w.recall_cost;
    ELSIF w.algorithm = n.algorithm AND w.period = n.period
        AND w.calendar = n.calendar AND w.zone = n.zone THEN
        w.amount := n.amount; -- only the capacity changed
        w.burst := n.burst;
        w.bounds := n.bounds;
        w.capacity := n.capacity;
        w.rate := n.rate;
        w.per := n.per;
        n := w;
    ELSIF w.algorithm = 3 OR n.algorithm = 3 THEN
        n.anew := true;
    ELSE
        -- What is held may be spent under either limit, so it counts as used.
        IF w.used + w.held > 0 THEN
            n := sluice.spend_v2(sluice.view_v2(n, w.now), w.used + w.held);
        END IF;
        n.consumed := sluice.saturate_v2(w.consumed + w.held);
    END IF;
    RETURN sluice.view_v2(n, now);
END $$;
