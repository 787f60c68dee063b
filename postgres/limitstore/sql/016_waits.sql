-- How long things take: the rest of the arithmetic of package bucket.

-- repay_v2 is the least time in which n is repaid: Spec.repayIn.
CREATE FUNCTION sluice.repay_v2(rate bigint, per bigint, rem bigint, n bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    whole bigint := n / rate;
    parts bigint;
BEGIN
    IF n <= 0 THEN
        RETURN 0;
    END IF;
    IF whole > sluice.forever_v2() / per THEN
        RETURN sluice.forever_v2();
    END IF;
    parts := n % rate * per - rem;
    IF parts > 0 THEN
        RETURN whole * per + (parts + rate - 1) / rate;
    END IF;
    RETURN whole * per - (-parts) / rate;
END $$;

-- until_v2 is how long it takes for used and held to come down to target:
-- Spec.until.
CREATE FUNCTION sluice.until_v2(w sluice.working_v2, target bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(sluice.forever_v2(), CASE w.algorithm
        WHEN 0 THEN sluice.until_tokens_v2(w, target)
        WHEN 1 THEN sluice.until_sliding_v2(w, target)
        WHEN 2 THEN w.ends - w.now
        ELSE sluice.until_flights_v2(w, target)
    END);
END $$;

CREATE FUNCTION sluice.until_tokens_v2(w sluice.working_v2, target bigint) RETURNS bigint
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
            wait := sluice.repay_v2(w.rate, w.per, w.rem, excess);
            IF t + wait <= w.holds[i + 3] THEN
                RETURN t + wait - w.now;
            END IF;
        END IF;
        r := sluice.refill_v2(w.rate, w.per, w.holds[i + 3] - t, w.used, w.rem);
        t := w.holds[i + 3];
        w.rem := r.rem;
        w.used := r.used + w.holds[i + 2];
        w.held := w.held - w.holds[i + 2];
    END LOOP;
    RETURN t + sluice.repay_v2(w.rate, w.per, w.rem, w.used - target) - w.now;
END $$;

CREATE FUNCTION sluice.until_sliding_v2(w sluice.working_v2, target bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    left_used bigint := w.used;
BEGIN
    FOR i IN 1 .. 33 LOOP -- the oldest first
        left_used := left_used - w.counts[(w.at + i) % 33 + 1];
        IF left_used <= target THEN
            RETURN sluice.part_start_v2(w.period, w.at + i) - w.now;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION sluice.until_flights_v2(w sluice.working_v2, target bigint) RETURNS bigint
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

-- retry_v2 is Spec.retryIn, and reset_v2 is Spec.ResetIn, both as of w.now.
CREATE FUNCTION sluice.retry_v2(w sluice.working_v2, cost bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF cost <= w.capacity - w.used - w.held - w.ahead THEN
        RETURN 0;
    END IF;
    IF cost > w.capacity THEN
        RETURN sluice.never_v2();
    END IF;
    IF w.ahead > 0 THEN
        IF w.algorithm = 0 THEN
            w.used := w.used + w.ahead; -- as if they had been served
        ELSIF cost <= w.capacity - w.used - w.held THEN
            RETURN w.ahead_ends - w.now; -- they may be served any moment, or have gone
        END IF;
    END IF;
    RETURN sluice.until_v2(w, w.capacity - cost);
END $$;
CREATE FUNCTION sluice.reset_v2(w sluice.working_v2) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF w.used = 0 THEN
        RETURN 0;
    END IF;
    IF w.algorithm = 0 THEN -- whatever is held
        RETURN least(sluice.forever_v2(), sluice.repay_v2(w.rate, w.per, w.rem, w.used));
    END IF;
    RETURN sluice.until_v2(w, 0);
END $$;

-- later_v2 is a wait from w.now as one from the clock's time: View.later.
CREATE FUNCTION sluice.later_v2(w sluice.working_v2, wait bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF w.behind = 0 OR wait = 0 OR wait = sluice.never_v2() THEN
        RETURN wait;
    END IF;
    RETURN least(wait + w.behind, sluice.forever_v2());
END $$;

-- expires_v2 is when the row will mean nothing any more, but for the tickets of
-- a fixed window.
CREATE FUNCTION sluice.expires_v2(w sluice.working_v2) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    idle bigint := w.now; -- when nothing is used or held any more
BEGIN
    IF w.algorithm = 2 THEN
        RETURN w.ends;
    END IF;
    IF w.used <> 0 OR w.held <> 0 THEN
        idle := w.now + sluice.until_v2(w, 0);
    END IF;
    RETURN greatest(idle, w.recalled, w.line_ends);
END $$;

-- store_v2 is a copy as it is to be kept: the view, if that was changed, or else
-- the state that it was made from.
CREATE FUNCTION sluice.store_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT w.still THEN
        RETURN w;
    END IF;
    w.lasts := CASE WHEN w.algorithm = 2 THEN coalesce(w.was_ends, 0) ELSE sluice.expires_v2(w) END;
    w.used := w.was_used;
    w.rem := w.was_rem;
    w.at := w.was_at;
    w.consumed := w.was_consumed;
    w.counts := w.was_counts;
    w.holds := w.was_holds;
    w.tickets := w.was_tickets;
    w.ends := w.was_ends;
    RETURN w;
END $$;
