-- The arithmetic of package bucket, in the same integers. Where this and that
-- differ, this is wrong; the conformance suite and extreme_test.go compare them.
--
-- They work on a copy of a bucket that view_v2 has brought to the present: a
-- bucket.View, which becomes the state where a change is written, and beside it
-- the bucket.State that it was made from. Flights are not in the copy but in
-- their own table.

CREATE TYPE sluice.working_v2 AS (
    -- the limit
    algorithm smallint,
    amount    bigint,
    period    bigint,
    burst     bigint,
    calendar  smallint,
    zone      text,
    bounds    bigint[], -- of calendar windows around now: start and end of each
    capacity  bigint,
    rate      bigint,   -- amount and period in lowest terms: Limit.Rate
    per       bigint,

    -- bucket.State
    used        bigint,
    rem         bigint,
    at          bigint,
    consumed    bigint,
    recalled    bigint,
    recall_cost bigint,
    counts      bigint[],
    holds       bigint[],
    tickets     bigint[],

    -- bucket.View, where it says more
    now    bigint,
    behind bigint, -- for how long the clock has yet to reach now
    ends   bigint, -- of a fixed window; NULL if bounds do not tell
    held   bigint,

    -- Those who wait, as line_v2 or stand_v2 sees them.
    ahead      bigint, -- what those want who are before in line
    ahead_ends bigint, -- when the first of them expires
    line_ends  bigint, -- when the last ticket expires
    rank       bigint, -- of the ticket of who looks

    id   bigint,  -- of the bucket, for its flights; NULL for a new one
    anew boolean, -- its flights in the table are none of it any more

    changed boolean, -- since the view
    still   boolean, -- but for marks and tickets, so that its time stands still

    -- The state before the view, which is stored where it stands still.
    was_used     bigint,
    was_rem      bigint,
    was_at       bigint,
    was_consumed bigint,
    was_counts   bigint[],
    was_holds    bigint[],
    was_tickets  bigint[],
    was_ends     bigint,
    lasts        bigint -- what expires_v2 said of the view
);

-- The largest debt, and the longest wait but for never: sluice.MaxTokens,
-- bucket.Forever, bucket.Never.
CREATE FUNCTION sluice.max_tokens_v2() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 1000000000000000 $$;
CREATE FUNCTION sluice.forever_v2() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 4503599627370496 $$;
CREATE FUNCTION sluice.never_v2() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 9223372036854775807 $$;

-- bucket.saturate
CREATE FUNCTION sluice.saturate_v2(n bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT least(greatest(n, -9007199254740991), 9007199254740991)
$$;

-- bucket.floorMod
CREATE FUNCTION sluice.floor_mod_v2(a bigint, b bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT (a % b + b) % b $$;

-- fresh_v2 is a full bucket under a limit: the zero State, not yet viewed.
CREATE FUNCTION sluice.fresh_v2(
    algorithm smallint, amount bigint, period bigint, burst bigint, calendar smallint, zone text, bounds bigint[]
) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    w sluice.working_v2;
BEGIN
    w.algorithm := algorithm;
    w.amount := amount;
    w.period := period;
    w.burst := burst;
    w.calendar := calendar;
    w.zone := zone;
    w.bounds := bounds;
    w.used := 0;
    w.rem := 0;
    w.at := 0;
    w.consumed := 0;
    w.recalled := 0;
    w.recall_cost := 0;
    RETURN sluice.compile_v2(w);
END $$;

-- compile_v2 prepares the limit for arithmetic: bucket.Compile.
CREATE FUNCTION sluice.compile_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    divisor bigint;
BEGIN
    w.capacity := CASE WHEN w.burst = 0 THEN w.amount ELSE w.burst END;
    w.rate := w.amount;
    w.per := w.period;
    IF w.algorithm = 0 THEN
        divisor := gcd(w.amount, w.period);
        w.rate := w.amount / divisor;
        w.per := w.period / divisor;
    END IF;
    w.anew := false;
    RETURN w;
END $$;

-- refill_v2 repays what is used for the time elapsed: Spec.refill.
CREATE FUNCTION sluice.refill_v2(rate bigint, per bigint, elapsed bigint, INOUT used bigint, INOUT rem bigint)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    periods bigint := elapsed / per;
    parts   bigint;
BEGIN
    IF used = 0 OR periods > used / rate THEN
        used := 0;
        rem := 0;
        RETURN;
    END IF;
    parts := elapsed % per * rate + rem;
    used := used - periods * rate - parts / per;
    rem := parts % per;
    IF used <= 0 THEN
        used := 0;
        rem := 0;
    END IF;
END $$;

-- part_v2 and part_start_v2 number the parts of a sliding window: Spec.part
-- and Spec.partStart.
CREATE FUNCTION sluice.part_v2(period bigint, t bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (t - sluice.floor_mod_v2(t, period)) / period * 32 + sluice.floor_mod_v2(t, period) * 32 / period
$$;
CREATE FUNCTION sluice.part_start_v2(period bigint, i bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (i - sluice.floor_mod_v2(i, 32)) / 32 * period + (sluice.floor_mod_v2(i, 32) * period + 31) / 32
$$;

-- view_v2 brings a bucket to the present, and writes that into the copy:
-- Spec.View and Spec.commit. Viewing twice is viewing once.
CREATE FUNCTION sluice.view_v2(w sluice.working_v2, now bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql STABLE AS $$
BEGIN
    w.was_used := w.used;
    w.was_rem := w.rem;
    w.was_at := w.at;
    w.was_consumed := w.consumed;
    w.was_counts := w.counts;
    w.was_holds := w.holds;
    w.was_tickets := w.tickets;
    w.was_ends := w.ends;
    w.lasts := NULL;
    w.changed := false;
    w.still := true;
    w.held := 0;
    w.now := greatest(now, w.at);
    CASE w.algorithm
    WHEN 0 THEN
        w := sluice.view_tokens_v2(w);
    WHEN 1 THEN
        w.now := now;
        w := sluice.view_sliding_v2(w);
    WHEN 2 THEN
        w := sluice.view_fixed_v2(w);
    ELSE
        w.used := w.used - coalesce((
            SELECT sum(f.cost) FROM sluice.flight f
            WHERE f.bucket = w.id AND f.expires <= w.now AND f.expires > w.at AND NOT w.anew
        ), 0);
        w.at := w.now;
    END CASE;
    w.behind := w.now - now;
    w.ahead := 0;
    w.ahead_ends := NULL;
    w.line_ends := NULL;
    IF w.tickets IS NOT NULL THEN
        w := sluice.line_v2(w);
    END IF;
    RETURN w;
END $$;

CREATE FUNCTION sluice.view_tokens_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    t    bigint;
    kept bigint[];
    r    record;
BEGIN
    FOR i IN 1 .. coalesce(cardinality(w.holds), 0) BY 4 LOOP
        IF w.holds[i + 3] > w.now THEN
            w.held := w.held + w.holds[i + 2];
            kept := kept || w.holds[i : i + 3];
            CONTINUE;
        END IF;
        -- An expired hold counts as spent when it expired.
        t := greatest(w.holds[i + 3], w.at);
        r := sluice.refill_v2(w.rate, w.per, t - w.at, w.used, w.rem);
        w.at := t;
        w.rem := r.rem;
        w.used := r.used + w.holds[i + 2];
        w.consumed := sluice.saturate_v2(w.consumed + w.holds[i + 2]);
    END LOOP;
    w.holds := kept;
    r := sluice.refill_v2(w.rate, w.per, w.now - w.at, w.used, w.rem);
    w.used := r.used;
    w.rem := r.rem;
    w.at := w.now;
    RETURN w;
END $$;

CREATE FUNCTION sluice.view_sliding_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part bigint := sluice.part_v2(w.period, w.now);
BEGIN
    IF w.counts IS NULL THEN
        w.counts := array_fill(0::bigint, ARRAY[33]);
        w.at := part;
        RETURN w;
    END IF;
    IF part < w.at THEN -- the clock went back
        part := w.at;
        w.now := sluice.part_start_v2(w.period, part);
    END IF;
    IF part > w.at THEN
        FOR i IN 1 .. least(part - w.at, 33) LOOP
            w.counts[(w.at + i) % 33 + 1] := 0;
        END LOOP;
        w.used := (SELECT sum(n) FROM unnest(w.counts) n);
        w.at := part;
    END IF;
    RETURN w;
END $$;

CREATE FUNCTION sluice.view_fixed_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    start bigint;
    kept  bigint[];
BEGIN
    IF w.calendar = 0 THEN
        start := w.now - sluice.floor_mod_v2(w.now, w.period);
        w.ends := start + w.period;
    ELSIF w.ends > w.now THEN -- still the window that was stored
        start := w.at;
    ELSE
        w.ends := NULL;
        FOR i IN 1 .. coalesce(cardinality(w.bounds), 0) BY 2 LOOP
            IF w.bounds[i] <= w.now AND w.now < w.bounds[i + 1] THEN
                start := w.bounds[i];
                w.ends := w.bounds[i + 1];
            END IF;
        END LOOP;
    END IF;
    FOR i IN 1 .. coalesce(cardinality(w.holds), 0) BY 4 LOOP
        IF start = w.at AND w.holds[i + 3] > w.now THEN
            w.held := w.held + w.holds[i + 2];
            kept := kept || w.holds[i : i + 3];
        ELSE
            w.used := w.used + w.holds[i + 2];
            w.consumed := sluice.saturate_v2(w.consumed + w.holds[i + 2]);
        END IF;
    END LOOP;
    w.holds := kept;
    IF start IS DISTINCT FROM w.at THEN
        w.used := 0;
        w.at := start;
    END IF;
    RETURN w;
END $$;
