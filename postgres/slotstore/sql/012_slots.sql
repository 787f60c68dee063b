-- Plans, windows, slots and their executions. Times are microseconds since
-- 1970.

CREATE TABLE sluice.slot_plan (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    version   int     NOT NULL, -- the active one
    paused    boolean NOT NULL DEFAULT false,
    eras      text    NOT NULL, -- JSON: from when on windows have which size
    UNIQUE (namespace, name)
);

CREATE TABLE sluice.slot_version (
    plan           bigint NOT NULL,
    version        int    NOT NULL,
    max_per_window int    NOT NULL,
    window_size    bigint NOT NULL,
    headroom       int    NOT NULL,
    calendar       text, -- JSON
    created        bigint NOT NULL,
    starts         bigint NOT NULL,
    PRIMARY KEY (plan, version)
);

CREATE TABLE sluice.slot_window (
    plan  bigint  NOT NULL,
    start bigint  NOT NULL,
    size  bigint  NOT NULL,
    cap   int     NOT NULL, -- of the active plan; 0 where it has no such window
    used  int     NOT NULL DEFAULT 0,
    room  boolean NOT NULL, -- whether used < cap
    open  bigint[],         -- from and to, in turn; NULL for all of it
    PRIMARY KEY (plan, start)
)
-- A window is updated for each event in it; no index covers what that changes,
-- but for the last one.
WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05);

-- Searches go by it, so full windows cost them nothing.
CREATE INDEX slot_window_room ON sluice.slot_window (plan, start) WHERE room;

-- A stretch of time whose windows are all there; what is over may be cut off.
CREATE TABLE sluice.slot_run (
    plan  bigint NOT NULL,
    start bigint NOT NULL,
    stop  bigint NOT NULL,
    PRIMARY KEY (plan, start)
);

CREATE TABLE sluice.slot (
    plan      bigint   NOT NULL,
    win       bigint   NOT NULL, -- start of the window
    at        bigint   NOT NULL, -- when it is scheduled
    requested bigint   NOT NULL,
    created   bigint   NOT NULL,
    due       bigint   NOT NULL, -- when it can be claimed, or claimed again; of a finished one, when it or its window ended
    fence     bigint   NOT NULL DEFAULT 0,
    version   int      NOT NULL,
    attempts  int      NOT NULL DEFAULT 0,
    state     smallint NOT NULL DEFAULT 0, -- schedule.State
    namespace text COLLATE "C" NOT NULL,
    event     text COLLATE "C" NOT NULL,
    worker    text,
    payload   bytea,
    PRIMARY KEY (event, namespace)
);
CREATE INDEX slot_by_time ON sluice.slot (plan, at);
CREATE INDEX slot_by_due ON sluice.slot (plan, due) WHERE state < 2;
CREATE INDEX slot_by_end ON sluice.slot (plan, due) WHERE state >= 2; -- to sweep them

-- Only ever added to, and swept.
CREATE TABLE sluice.slot_audit (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time      bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    plan      bigint NOT NULL,
    event     text COLLATE "C" NOT NULL DEFAULT '',
    action    text NOT NULL, -- schedule.Action
    attempt   int NOT NULL DEFAULT 0,
    fence     bigint NOT NULL DEFAULT 0,
    worker    text NOT NULL DEFAULT '',
    scheduled bigint,
    granted   bigint,
    started   bigint,
    finished  bigint,
    detail    text NOT NULL DEFAULT ''
);
CREATE INDEX slot_audit_by_event ON sluice.slot_audit (namespace, event, id);
CREATE INDEX slot_audit_by_plan ON sluice.slot_audit (plan, id);

-- slot_ready_v1 makes the session's settings where it has none of its own, and
-- keeps the plan's version as it is until the transaction ends: whoever changes
-- a plan takes the same lock for himself. It reports whether the version is the
-- active one.
CREATE FUNCTION sluice.slot_ready_v1(patience text, p_plan bigint, p_version int) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM sluice.ready_v1(patience);
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('sluice.slot_plan', p_plan));
    RETURN EXISTS (SELECT FROM sluice.slot_plan WHERE id = p_plan AND version = p_version);
END $$;

-- slot_moment_v1 is schedule.Window.Moment.
CREATE FUNCTION sluice.slot_moment_v1(start bigint, size bigint, open bigint[], earliest bigint, u float8) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    start_at bigint;
    left_over bigint := 0;
    length bigint;
BEGIN
    IF open IS NULL THEN
        start_at := greatest(start, earliest);
        length := start + size - start_at;
        RETURN start_at + greatest(least(floor(u * length)::bigint, length - 1), 0);
    END IF;
    FOR i IN 1 .. cardinality(open) BY 2 LOOP
        left_over := left_over + greatest(open[i + 1] - greatest(open[i], earliest), 0);
    END LOOP;
    left_over := greatest(least(floor(u * left_over)::bigint, left_over - 1), 0);
    FOR i IN 1 .. cardinality(open) BY 2 LOOP
        start_at := greatest(open[i], earliest);
        length := open[i + 1] - start_at;
        IF length > left_over THEN
            RETURN start_at + left_over;
        ELSIF length > 0 THEN
            left_over := left_over - length;
        END IF;
    END LOOP;
    RETURN earliest;
END $$;

-- slot_assign_v1 is schedule.Store.Assign in one call. status is a
-- schedule.FoundStatus, or -1 for ErrStale. Who has the slot already is left
-- to the caller to read.
CREATE FUNCTION sluice.slot_assign_v1(
    patience text, p_namespace text, p_event text, p_plan bigint, p_version int, p_from bigint, p_until bigint,
    p_earliest bigint, p_jitter float8, p_requested bigint, p_now bigint, p_payload bytea,
    OUT status int, OUT o_win bigint, OUT o_at bigint, OUT o_unprepared bigint, OUT o_first bigint,
    OUT o_contended bigint[], OUT o_depth int, OUT o_frontier bigint
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    prepared bigint;
    last bigint; -- before where the window must begin
    w_size bigint;
    w_open bigint[];
BEGIN
    IF NOT sluice.slot_ready_v1(patience, p_plan, p_version) THEN
        status := -1;
        RETURN;
    END IF;
    prepared := (SELECT r.stop FROM sluice.slot_run r WHERE r.plan = p_plan AND r.start <= p_from ORDER BY r.start DESC LIMIT 1);
    last := least(p_until, prepared);
    IF prepared > p_from THEN
        SELECT v.start, v.size, v.open INTO o_win, w_size, w_open FROM sluice.slot_window v
        WHERE v.plan = p_plan AND v.room AND v.start >= p_from AND v.start < last
        ORDER BY v.start LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    END IF;

    IF o_win IS NOT NULL THEN
        IF w_open IS NULL THEN
            o_at := greatest(o_win, p_earliest);
            w_size := o_win + w_size - o_at; -- what is left of it
            o_at := o_at + greatest(least(floor(p_jitter * w_size)::bigint, w_size - 1), 0);
        ELSE
            o_at := sluice.slot_moment_v1(o_win, w_size, w_open, p_earliest, p_jitter);
        END IF;
        INSERT INTO sluice.slot (plan, win, at, requested, created, due, version, namespace, event, payload)
        VALUES (p_plan, o_win, o_at, p_requested, p_now, o_at, p_version, p_namespace, p_event, p_payload)
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            status := 2;
            RETURN;
        END IF;
        status := 1;
        o_first := o_win;
        IF o_win > p_from THEN
            -- What has room and was passed over is in use.
            o_contended := ARRAY (
                SELECT v.start FROM sluice.slot_window v
                WHERE v.plan = p_plan AND v.room AND v.start >= p_from AND v.start < o_win ORDER BY v.start LIMIT 32
            );
            o_first := coalesce(o_contended[1], o_win);
        END IF;
        UPDATE sluice.slot_window v SET used = v.used + 1, room = v.used + 1 < v.cap WHERE v.plan = p_plan AND v.start = o_win;
        RETURN;
    END IF;

    IF EXISTS (SELECT FROM sluice.slot s WHERE s.event = p_event AND s.namespace = p_namespace) THEN
        status := 2;
    ELSIF prepared IS NULL OR prepared <= p_from THEN
        status := 4;
        o_unprepared := p_from;
    ELSE
        o_contended := ARRAY (
            SELECT v.start FROM sluice.slot_window v
            WHERE v.plan = p_plan AND v.room AND v.start >= p_from AND v.start < last ORDER BY v.start LIMIT 32
        );
        IF prepared < p_until THEN
            status := 4;
            o_unprepared := prepared;
        ELSE
            status := 0;
            o_depth := (SELECT count(*) FROM sluice.slot_window v
                WHERE v.plan = p_plan AND v.start >= p_from AND v.start < p_until AND v.cap > 0);
            o_frontier := sluice.slot_frontier_v1(p_plan);
        END IF;
    END IF;
END $$;

-- slot_frontier_v1 is the start of the last window that has an event, or 0.
CREATE FUNCTION sluice.slot_frontier_v1(p_plan bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT start FROM sluice.slot_window WHERE plan = p_plan AND used > 0 ORDER BY start DESC LIMIT 1), 0)
$$;

-- slot_assign_few_v1 is slot_assign_v1 for several events of one plan, which
-- must be in order of their names, so that two calls with the same events
-- cannot wait for each other.
CREATE FUNCTION sluice.slot_assign_few_v1(
    patience text, p_namespace text, p_events text[], p_plan bigint, p_version int, p_froms bigint[], p_untils bigint[],
    p_earliest bigint[], p_jitters float8[], p_requested bigint[], p_now bigint, p_payloads bytea[]
) RETURNS TABLE (
    status int, o_win bigint, o_at bigint, o_unprepared bigint, o_first bigint, o_contended bigint[], o_depth int, o_frontier bigint
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_events) LOOP
        RETURN QUERY SELECT * FROM sluice.slot_assign_v1(
            patience, p_namespace, p_events[i], p_plan, p_version, p_froms[i], p_untils[i],
            p_earliest[i], p_jitters[i], p_requested[i], p_now, p_payloads[i]);
    END LOOP;
END $$;

-- slot_grab_v1 locks windows for groups of events, each with a time from which
-- on to search, in order of that: as many as have room for the group, skipping
-- those in use. For each group it tells how far windows are prepared, 0 for not
-- at all, whether there were too few, which windows were passed over first, and
-- what its first one was.
CREATE FUNCTION sluice.slot_grab_v1(
    patience text, p_plan bigint, p_version int, p_max int, froms bigint[], untils bigint[], counts int[],
    OUT fresh boolean, OUT starts bigint[], OUT sizes bigint[], OUT caps int[], OUT useds int[], OUT opens text[],
    OUT stops bigint[], OUT short boolean[], OUT firsts bigint[], OUT contended bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run_start bigint := 0;
    run_stop bigint := 0;
    spare int := 0;
    need int;
    search bigint;
    began bigint;
    passed bigint[];
    last bigint := -1;
    got int;
    first_got bigint;
    w record;
BEGIN
    fresh := sluice.slot_ready_v1(patience, p_plan, p_version);
    IF NOT fresh THEN
        RETURN;
    END IF;
    FOR g IN 1 .. cardinality(froms) LOOP
        IF froms[g] >= run_stop OR froms[g] < run_start THEN
            SELECT r.start, r.stop INTO run_start, run_stop FROM sluice.slot_run r
            WHERE r.plan = p_plan AND r.start <= froms[g] AND r.stop > froms[g] ORDER BY r.start DESC LIMIT 1;
            run_start := coalesce(run_start, 0);
            run_stop := coalesce(run_stop, 0);
        END IF;
        stops[g] := run_stop;
        IF froms[g] > last THEN
            spare := 0; -- what the groups before have left is too early
        END IF;
        need := counts[g] - spare;
        search := greatest(froms[g], last + 1);
        began := search;
        first_got := NULL;
        WHILE need > 0 LOOP
            got := 0;
            FOR w IN
                SELECT v.start, v.size, v.cap, v.used, v.open FROM sluice.slot_window v
                WHERE v.plan = p_plan AND v.room AND v.start >= search AND v.start < least(untils[g], run_stop)
                ORDER BY v.start LIMIT (need + p_max - 1) / p_max FOR NO KEY UPDATE SKIP LOCKED
            LOOP
                starts := starts || w.start;
                sizes := sizes || w.size;
                caps := caps || w.cap;
                useds := useds || w.used;
                opens := opens || w.open::text;
                need := need - (w.cap - w.used);
                got := got + 1;
                last := w.start;
                first_got := coalesce(first_got, w.start);
            END LOOP;
            EXIT WHEN got = 0;
            search := last + 1;
        END LOOP;
        spare := greatest(-need, 0);
        short[g] := need > 0;
        passed := NULL;
        IF began IS DISTINCT FROM first_got AND (first_got IS NOT NULL OR need > 0) THEN
            -- What has room and was passed over is in use.
            passed := ARRAY (
                SELECT v.start FROM sluice.slot_window v
                WHERE v.plan = p_plan AND v.room AND v.start >= began AND v.start < coalesce(first_got, least(untils[g], run_stop))
                ORDER BY v.start LIMIT 32
            );
            contended := contended || passed;
        END IF;
        IF began = froms[g] THEN
            firsts[g] := coalesce(passed[1], first_got);
        ELSE
            firsts[g] := NULL; -- windows of the groups before may have room left
        END IF;
    END LOOP;
END $$;

-- slot_prepare_v1 is schedule.Store.Prepare.
CREATE FUNCTION sluice.slot_prepare_v1(
    patience text, p_plan bigint, p_version int, froms bigint[], tos bigint[],
    starts bigint[], sizes bigint[], caps int[], opens text[], OUT fresh boolean
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    first bigint;
    last bigint;
BEGIN
    fresh := sluice.slot_ready_v1(patience, p_plan, p_version);
    IF NOT fresh THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('sluice.slot_run', p_plan));
    -- Those that are prepared already stay as they are; the others may have
    -- been there under another version of the plan.
    INSERT INTO sluice.slot_window (plan, start, size, cap, room, open)
    SELECT p_plan, x.start, x.size, x.cap, true, x.open::bigint[]
    FROM unnest(starts, sizes, caps, opens) x (start, size, cap, open)
    WHERE NOT EXISTS (SELECT FROM sluice.slot_run r WHERE r.plan = p_plan AND r.start <= x.start AND r.stop > x.start)
    ON CONFLICT (plan, start) DO UPDATE
    SET cap = excluded.cap, room = slot_window.used < excluded.cap, open = excluded.open;
    FOR i IN 1 .. cardinality(froms) LOOP
        WITH met AS (
            DELETE FROM sluice.slot_run r WHERE r.plan = p_plan AND r.start <= tos[i] AND r.stop >= froms[i] RETURNING r.start, r.stop
        )
        SELECT least(froms[i], min(met.start)), greatest(tos[i], max(met.stop)) INTO first, last FROM met;
        INSERT INTO sluice.slot_run (plan, start, stop) VALUES (p_plan, first, last);
    END LOOP;
END $$;
