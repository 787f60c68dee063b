-- Stored responses of idempotent writes: idempotency.Record. Times are
-- microseconds since the epoch.
CREATE TABLE sluice.replay (
    id          bytea PRIMARY KEY, -- a digest of the four names
    tenant      text COLLATE "C" NOT NULL,
    method      text COLLATE "C" NOT NULL,
    route       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    state       smallint NOT NULL, -- 0 running, 1 done, 2 failed
    token       bytea NOT NULL,    -- of the latest claim
    attempts    bigint NOT NULL,
    started     bigint NOT NULL,
    lease       bigint NOT NULL,
    lease_ends  bigint NOT NULL,
    finished    bigint,
    expires     bigint NOT NULL,
    replays     bigint NOT NULL DEFAULT 0,
    replayed    bigint,
    size        bigint NOT NULL DEFAULT 0,
    result      bytea
);
CREATE INDEX replay_by_expiry ON sluice.replay (expires);
CREATE INDEX replay_by_use ON sluice.replay (replayed) WHERE replays > 0;
CREATE INDEX replay_by_tenant ON sluice.replay (tenant, replayed) WHERE replays > 0;

-- Figures, of each tenant and of everyone.
CREATE TABLE sluice.replay_figure (
    everyone boolean NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    value    bigint NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (everyone, tenant, name)
);

-- claim_replay_v1 decides as idempotency.Decide does. What needs no writing is
-- answered without a lock, so that many repeats do not wait for each other.
CREATE FUNCTION sluice.claim_replay_v1(
    given bigint, id bytea, tenant text, method text, route text, key text,
    fingerprint bytea, token bytea, lease bigint, ttl bigint, take_over boolean,
    OUT verdict smallint, OUT now bigint, OUT record sluice.replay
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    claimed   CONSTANT smallint := 0;
    taken     CONSTANT smallint := 1;
    busy      CONSTANT smallint := 2;
    uncertain CONSTANT smallint := 3;
    done      CONSTANT smallint := 4;
    mismatch  CONSTANT smallint := 5;
    wanted sluice.replay;
BEGIN
    now := sluice.clock_v1(given);
    wanted.id := claim_replay_v1.id;
    wanted.tenant := claim_replay_v1.tenant;
    wanted.method := claim_replay_v1.method;
    wanted.route := claim_replay_v1.route;
    wanted.key := claim_replay_v1.key;
    wanted.fingerprint := claim_replay_v1.fingerprint;
    wanted.state := 0;
    wanted.token := claim_replay_v1.token;
    wanted.attempts := 1;
    wanted.started := now;
    wanted.lease := claim_replay_v1.lease;
    wanted.lease_ends := now + wanted.lease;
    wanted.expires := now + ttl;
    wanted.replays := 0;
    wanted.size := 0;
    FOR pass IN 1 .. 20 LOOP
        IF pass = 1 THEN
            SELECT r.* INTO record FROM sluice.replay r WHERE r.id = wanted.id;
        ELSE
            SELECT r.* INTO record FROM sluice.replay r WHERE r.id = wanted.id FOR UPDATE;
        END IF;
        IF NOT FOUND THEN
            INSERT INTO sluice.replay AS r (id, tenant, method, route, key, fingerprint, state, token, attempts,
                started, lease, lease_ends, expires)
            VALUES (wanted.id, wanted.tenant, wanted.method, wanted.route, wanted.key, wanted.fingerprint, 0, wanted.token, 1,
                wanted.started, wanted.lease, wanted.lease_ends, wanted.expires)
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                record := wanted;
                verdict := claimed;
                RETURN;
            END IF;
            CONTINUE; -- somebody else was faster
        END IF;

        IF record.expires > now THEN
            IF record.fingerprint <> wanted.fingerprint THEN
                verdict := mismatch;
            ELSIF record.state = 1 THEN
                verdict := done;
            ELSIF record.state = 0 AND record.token = wanted.token THEN
                verdict := claimed;
            ELSIF record.state = 0 AND record.lease_ends > now AND record.lease_ends <= now + record.lease THEN
                verdict := busy;
            ELSIF record.state = 0 AND record.lease_ends <= now AND NOT take_over THEN
                verdict := uncertain;
            END IF;
            IF verdict IS NOT NULL THEN
                IF verdict <> done THEN
                    record.result := NULL;
                END IF;
                RETURN;
            END IF;
        END IF;
        CONTINUE WHEN pass = 1; -- there is something to write, so look again with a lock

        IF record.expires > now AND record.state = 0 AND record.lease_ends > now THEN
            -- The clock was set back.
            UPDATE sluice.replay r SET lease_ends = now + r.lease WHERE r.id = wanted.id RETURNING r.* INTO record;
            verdict := busy;
            RETURN;
        END IF;
        verdict := CASE WHEN record.expires > now THEN taken ELSE claimed END;
        wanted.attempts := CASE verdict WHEN taken THEN record.attempts + 1 ELSE 1 END;
        UPDATE sluice.replay r SET
            fingerprint = wanted.fingerprint, state = 0, token = wanted.token, attempts = wanted.attempts,
            started = wanted.started, lease = wanted.lease, lease_ends = wanted.lease_ends, finished = NULL,
            expires = wanted.expires, replays = 0, replayed = NULL, size = 0, result = NULL
        WHERE r.id = wanted.id;
        record := wanted;
        RETURN;
    END LOOP;
    RAISE EXCEPTION 'a record comes and goes' USING ERRCODE = 'SL001';
END $$;

-- finish_replay_v1 stores a result and reports whether the claim was held.
-- Sent again it changes nothing.
CREATE FUNCTION sluice.finish_replay_v1(
    given bigint, wanted bytea, holder bytea, ending smallint, ttl bigint, answer bytea
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now bigint := sluice.clock_v1(given);
BEGIN
    UPDATE sluice.replay r SET state = ending, finished = now, expires = now + ttl, size = length(answer), result = answer
    WHERE r.id = wanted AND r.token = holder AND r.state = 0 AND r.expires > now;
    RETURN FOUND OR EXISTS (
        SELECT FROM sluice.replay r WHERE r.id = wanted AND r.token = holder AND r.state = ending AND r.expires > now
    );
END $$;

-- note_replays_v1 adds to the figures and marks records as replayed. Everybody
-- locks rows in the same order.
CREATE FUNCTION sluice.note_replays_v1(
    given bigint, everyones boolean[], tenants text[], names text[], counts bigint[],
    ids bytea[], times bigint[], ats bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now bigint := sluice.clock_v1(given);
BEGIN
    INSERT INTO sluice.replay_figure AS f (everyone, tenant, name, value, at)
    SELECT n.everyone, n.tenant, n.name, n.value, now
    FROM unnest(everyones, tenants, names, counts) AS n (everyone, tenant, name, value)
    ORDER BY n.everyone, n.tenant COLLATE "C", n.name COLLATE "C"
    ON CONFLICT (everyone, tenant, name) DO UPDATE SET value = f.value + excluded.value, at = excluded.at;

    PERFORM FROM sluice.replay r WHERE r.id = ANY (ids) ORDER BY r.id FOR UPDATE;
    UPDATE sluice.replay r SET replays = r.replays + n.times, replayed = greatest(r.replayed, n.at)
    FROM unnest(ids, times, ats) AS n (id, times, at)
    WHERE r.id = n.id;
END $$;

-- sweep_replays_v1 deletes some of what has expired, and old figures.
CREATE FUNCTION sluice.sweep_replays_v1(given bigint, most int, idle bigint) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now   bigint := sluice.clock_v1(given);
    swept int;
BEGIN
    DELETE FROM sluice.replay r USING (
        SELECT x.id FROM sluice.replay x WHERE x.expires <= now
        ORDER BY x.expires LIMIT most FOR UPDATE SKIP LOCKED
    ) gone
    WHERE r.id = gone.id;
    GET DIAGNOSTICS swept = ROW_COUNT;
    DELETE FROM sluice.replay_figure f WHERE NOT f.everyone AND f.at < now - idle;
    RETURN swept;
END $$;

-- forget_replays_v1 deletes some of a tenant's records, and of all whose names
-- are in ranges; if there are no more, their figures too. Ids begin with what
-- tells whose they are, so the records lie side by side in the table's key. The
-- names decide. Rows are locked in the order in which everybody does.
CREATE FUNCTION sluice.forget_replays_v1(
    first bytea, last bytea, owner text, froms text[], tos text[], most int
) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    gone bytea[];
    n int;
BEGIN
    gone := ARRAY(
        SELECT r.id FROM sluice.replay r
        WHERE r.id BETWEEN first AND last AND (r.tenant = owner OR EXISTS (
            SELECT FROM unnest(froms, tos) AS b (low, high) WHERE r.tenant >= b.low AND r.tenant < b.high
        ))
        ORDER BY r.id LIMIT most FOR UPDATE
    );
    DELETE FROM sluice.replay r WHERE r.id = ANY (gone);
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < most THEN
        DELETE FROM sluice.replay_figure f WHERE NOT f.everyone AND f.tenant = owner;
        FOR i IN 1 .. coalesce(cardinality(froms), 0) LOOP
            DELETE FROM sluice.replay_figure f WHERE NOT f.everyone AND f.tenant >= froms[i] AND f.tenant < tos[i];
        END LOOP;
    END IF;
    RETURN n;
END $$;
