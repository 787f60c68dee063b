-- The arithmetic of package bucket, in the same integers. Where this and that
-- differ, this is wrong; arithmetic_test.go compares them.
--
-- They work on a copy of a bucket that view_v1 has brought to the present: a
-- bucket.State and its bucket.View in one. Flights are not in the copy but in
-- their own table.

CREATE TYPE sluice.working_v1 AS (
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

    -- bucket.View, where it says more
    now  bigint,
    ends bigint, -- of a fixed window; NULL if bounds do not tell
    held bigint,

    id   bigint,  -- of the bucket, for its flights; NULL for a new one
    anew boolean, -- its flights in the table are none of it any more

    changed boolean
);

-- clock_v1 is the database's time in microseconds; tests give their own.
CREATE FUNCTION sluice.clock_v1(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- The largest debt, and the longest wait but for never: sluice.MaxTokens,
-- bucket.Forever, bucket.Never.
CREATE FUNCTION sluice.max_tokens_v1() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 1000000000000000 $$;
CREATE FUNCTION sluice.forever_v1() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 4503599627370496 $$;
CREATE FUNCTION sluice.never_v1() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 9223372036854775807 $$;

-- bucket.saturate
CREATE FUNCTION sluice.saturate_v1(n bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT least(greatest(n, -9007199254740991), 9007199254740991)
$$;

-- bucket.floorMod
CREATE FUNCTION sluice.floor_mod_v1(a bigint, b bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT (a % b + b) % b $$;

-- fresh_v1 is a full bucket under a limit: the zero State, not yet viewed.
CREATE FUNCTION sluice.fresh_v1(
    algorithm smallint, amount bigint, period bigint, burst bigint, calendar smallint, zone text, bounds bigint[]
) RETURNS sluice.working_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    w sluice.working_v1;
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
    RETURN sluice.compile_v1(w);
END $$;

-- compile_v1 prepares the limit for arithmetic: bucket.Compile.
CREATE FUNCTION sluice.compile_v1(w sluice.working_v1) RETURNS sluice.working_v1
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
    w.held := 0;
    w.anew := false;
    w.changed := false;
    RETURN w;
END $$;

-- refill_v1 repays what is used for the time elapsed: Spec.refill.
CREATE FUNCTION sluice.refill_v1(rate bigint, per bigint, elapsed bigint, INOUT used bigint, INOUT rem bigint)
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

-- repay_v1 is the least time in which n is repaid: Spec.repayIn.
CREATE FUNCTION sluice.repay_v1(rate bigint, per bigint, rem bigint, n bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    whole bigint := n / rate;
    parts bigint;
BEGIN
    IF n <= 0 THEN
        RETURN 0;
    END IF;
    IF whole > sluice.forever_v1() / per THEN
        RETURN sluice.forever_v1();
    END IF;
    parts := n % rate * per - rem;
    IF parts > 0 THEN
        RETURN whole * per + (parts + rate - 1) / rate;
    END IF;
    RETURN whole * per - (-parts) / rate;
END $$;

-- part_v1 and part_start_v1 number the parts of a sliding window: Spec.part
-- and Spec.partStart.
CREATE FUNCTION sluice.part_v1(period bigint, t bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (t - sluice.floor_mod_v1(t, period)) / period * 32 + sluice.floor_mod_v1(t, period) * 32 / period
$$;
CREATE FUNCTION sluice.part_start_v1(period bigint, i bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (i - sluice.floor_mod_v1(i, 32)) / 32 * period + (sluice.floor_mod_v1(i, 32) * period + 31) / 32
$$;

-- view_v1 brings a bucket to the present, and writes that into the copy:
-- Spec.View and Spec.commit. Viewing twice is viewing once.
CREATE FUNCTION sluice.view_v1(w sluice.working_v1, now bigint) RETURNS sluice.working_v1
LANGUAGE plpgsql STABLE AS $$
BEGIN
    w.held := 0;
    w.now := greatest(now, w.at);
    CASE w.algorithm
    WHEN 0 THEN
        RETURN sluice.view_tokens_v1(w);
    WHEN 1 THEN
        w.now := now;
        RETURN sluice.view_sliding_v1(w);
    WHEN 2 THEN
        RETURN sluice.view_fixed_v1(w);
    ELSE
        w.used := w.used - coalesce((
            SELECT sum(f.cost) FROM sluice.flight f
            WHERE f.bucket = w.id AND f.expires <= w.now AND f.expires > w.at AND NOT w.anew
        ), 0);
        w.at := w.now;
        RETURN w;
    END CASE;
END $$;

CREATE FUNCTION sluice.view_tokens_v1(w sluice.working_v1) RETURNS sluice.working_v1
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
        r := sluice.refill_v1(w.rate, w.per, t - w.at, w.used, w.rem);
        w.at := t;
        w.rem := r.rem;
        w.used := r.used + w.holds[i + 2];
        w.consumed := sluice.saturate_v1(w.consumed + w.holds[i + 2]);
    END LOOP;
    w.holds := kept;
    r := sluice.refill_v1(w.rate, w.per, w.now - w.at, w.used, w.rem);
    w.used := r.used;
    w.rem := r.rem;
    w.at := w.now;
    RETURN w;
END $$;

CREATE FUNCTION sluice.view_sliding_v1(w sluice.working_v1) RETURNS sluice.working_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part bigint := sluice.part_v1(w.period, w.now);
BEGIN
    IF w.counts IS NULL THEN
        w.counts := array_fill(0::bigint, ARRAY[33]);
        w.at := part;
        RETURN w;
    END IF;
    IF part < w.at THEN -- the clock went back
        part := w.at;
        w.now := sluice.part_start_v1(w.period, part);
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

CREATE FUNCTION sluice.view_fixed_v1(w sluice.working_v1) RETURNS sluice.working_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    start bigint;
    kept  bigint[];
BEGIN
    IF w.calendar = 0 THEN
        start := w.now - sluice.floor_mod_v1(w.now, w.period);
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
            w.consumed := sluice.saturate_v1(w.consumed + w.holds[i + 2]);
        END IF;
    END LOOP;
    w.holds := kept;
    IF start IS DISTINCT FROM w.at THEN
        w.used := 0;
        w.at := start;
    END IF;
    RETURN w;
END $$;

-- until_v1 is how long it takes for used and held to come down to target:
-- Spec.until.
CREATE FUNCTION sluice.until_v1(w sluice.working_v1, target bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(sluice.forever_v1(), CASE w.algorithm
        WHEN 0 THEN sluice.until_tokens_v1(w, target)
        WHEN 1 THEN sluice.until_sliding_v1(w, target)
        WHEN 2 THEN w.ends - w.now
        ELSE sluice.until_flights_v1(w, target)
    END);
END $$;

CREATE FUNCTION sluice.until_tokens_v1(w sluice.working_v1, target bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    t      bigint := w.now;
    excess bigint;
    wait   bigint;
    r      record;
BEGIN
    -- Each hold turns from held to used when it expires.
    FOR i IN 1 .. coalesce(cardinality(w.holds), 0) BY 4 LOOP
        excess := w.used + w.held - target;
        IF excess <= w.used THEN
            wait := sluice.repay_v1(w.rate, w.per, w.rem, excess);
            IF t + wait <= w.holds[i + 3] THEN
                RETURN t + wait - w.now;
            END IF;
        END IF;
        r := sluice.refill_v1(w.rate, w.per, w.holds[i + 3] - t, w.used, w.rem);
        t := w.holds[i + 3];
        w.rem := r.rem;
        w.used := r.used + w.holds[i + 2];
        w.held := w.held - w.holds[i + 2];
    END LOOP;
    RETURN t + sluice.repay_v1(w.rate, w.per, w.rem, w.used - target) - w.now;
END $$;

CREATE FUNCTION sluice.until_sliding_v1(w sluice.working_v1, target bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    left_used bigint := w.used;
BEGIN
    FOR i IN 1 .. 33 LOOP -- the oldest first
        left_used := left_used - w.counts[(w.at + i) % 33 + 1];
        IF left_used <= target THEN
            RETURN sluice.part_start_v1(w.period, w.at + i) - w.now;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION sluice.until_flights_v1(w sluice.working_v1, target bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    left_used bigint := w.used;
    flight    record;
BEGIN
    IF w.anew THEN
        RETURN 0;
    END IF;
    IF target <= 0 THEN -- all of them: no need to go through them
        RETURN greatest(0, (SELECT max(f.expires) FROM sluice.flight f WHERE f.bucket = w.id) - w.now);
    END IF;
    FOR flight IN
        SELECT f.expires, f.cost FROM sluice.flight f
        WHERE f.bucket = w.id AND f.expires > w.now
        ORDER BY f.expires
    LOOP
        left_used := left_used - flight.cost;
        IF left_used <= target THEN
            RETURN flight.expires - w.now;
        END IF;
    END LOOP;
    RETURN 0;
END $$;

-- available_v1 is View.Available.
CREATE FUNCTION sluice.available_v1(w sluice.working_v1) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT w.capacity - w.used - w.held $$;

-- retry_v1 is Spec.RetryIn, and reset_v1 Spec.ResetIn.
CREATE FUNCTION sluice.retry_v1(w sluice.working_v1, cost bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF cost <= w.capacity - w.used - w.held THEN
        RETURN 0;
    END IF;
    IF cost > w.capacity THEN
        RETURN sluice.never_v1();
    END IF;
    RETURN sluice.until_v1(w, w.capacity - cost);
END $$;
CREATE FUNCTION sluice.reset_v1(w sluice.working_v1) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF w.used = 0 AND w.held = 0 THEN
        RETURN 0;
    END IF;
    RETURN sluice.until_v1(w, 0);
END $$;
