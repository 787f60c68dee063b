-- Entities, stored limits, tiers, keys, overrides, usage, audit: what package
-- catalog keeps. Names compare by their bytes, as they do in Go.
--
-- Every list follows one index from a place in it. PostgreSQL would often have
-- a choice: records under a parent in order of id, say, are also found by going
-- through all records in order of id, and it may take few children for many. So
-- the indexes beside the primary keys are in another collation, POSIX, which
-- sorts the same as C but is not the same. Whoever reads a table finds only its
-- primary key, and whoever reads the view ..._indexed only the other indexes.

-- How often each namespace was changed. Whoever changes a namespace locks its
-- row first, and so changes come one after the other. Rows stay when a
-- namespace goes, so that versions never repeat.
CREATE TABLE sluice.catalog_version (
    namespace text COLLATE "C" PRIMARY KEY,
    version   bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE sluice.catalog_record (
    namespace text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    sub       text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    under     text COLLATE "C" NOT NULL,
    tier      text COLLATE "C" NOT NULL,
    source    text COLLATE "C" NOT NULL,
    used      bigint NOT NULL DEFAULT 0, -- microseconds since the epoch
    data      json, -- not jsonb, which cannot hold every string of JSON
    PRIMARY KEY (namespace, kind, id, sub)
) WITH (fillfactor = 90); -- room to note when keys were used

CREATE VIEW sluice.catalog_record_indexed AS
SELECT namespace COLLATE "POSIX" AS namespace, kind COLLATE "POSIX" AS kind, id COLLATE "POSIX" AS id,
    sub COLLATE "POSIX" AS sub, version, under COLLATE "POSIX" AS under, tier COLLATE "POSIX" AS tier,
    source COLLATE "POSIX" AS source, used, data
FROM sluice.catalog_record;

CREATE INDEX catalog_record_under ON sluice.catalog_record (
    namespace COLLATE "POSIX", kind COLLATE "POSIX", under COLLATE "POSIX", id COLLATE "POSIX", sub COLLATE "POSIX"
) WHERE under COLLATE "POSIX" <> '';
CREATE INDEX catalog_record_tier ON sluice.catalog_record (
    namespace COLLATE "POSIX", kind COLLATE "POSIX", tier COLLATE "POSIX", id COLLATE "POSIX", sub COLLATE "POSIX"
) WHERE tier COLLATE "POSIX" <> '';
CREATE INDEX catalog_record_source ON sluice.catalog_record (
    namespace COLLATE "POSIX", kind COLLATE "POSIX", source COLLATE "POSIX", id COLLATE "POSIX", sub COLLATE "POSIX"
) WHERE source COLLATE "POSIX" <> '';
-- The ids of keys are unique in all namespaces.
CREATE UNIQUE INDEX catalog_record_key ON sluice.catalog_record (id) WHERE kind = 'key';

-- What was changed of late, for other processes to forget. Numbers have no
-- gaps and are in the order of commits, because the row that counts them stays
-- locked until then. So whoever has seen one has seen all before it.
CREATE TABLE sluice.catalog_change (
    seq       bigint PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL
);
CREATE TABLE sluice.catalog_last (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO sluice.catalog_last (seq) VALUES (0);

CREATE TABLE sluice.catalog_event (
    namespace text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    subject   text COLLATE "C" NOT NULL,
    data      json,
    PRIMARY KEY (namespace, id)
);

CREATE VIEW sluice.catalog_event_indexed AS
SELECT namespace COLLATE "POSIX" AS namespace, id COLLATE "POSIX" AS id, subject COLLATE "POSIX" AS subject, data
FROM sluice.catalog_event;

CREATE INDEX catalog_event_subject ON sluice.catalog_event (
    namespace COLLATE "POSIX", subject COLLATE "POSIX", id COLLATE "POSIX"
);

CREATE TABLE sluice.catalog_usage (
    namespace text COLLATE "C" NOT NULL,
    span      text COLLATE "C" NOT NULL,
    entity    text COLLATE "C" NOT NULL,
    resource  text COLLATE "C" NOT NULL,
    lim       text COLLATE "C" NOT NULL,
    start     bigint NOT NULL, -- seconds since the epoch
    amount    bigint NOT NULL, -- thousandths of a token
    count     bigint NOT NULL,
    PRIMARY KEY (namespace, span, entity, resource, lim, start)
)
-- The rows of the current hour are updated often. Room in each page, and no
-- index on anything that an update changes, let them stay in their pages.
WITH (fillfactor = 80);

CREATE VIEW sluice.catalog_usage_indexed AS
SELECT namespace COLLATE "POSIX" AS namespace, span COLLATE "POSIX" AS span, entity COLLATE "POSIX" AS entity,
    resource COLLATE "POSIX" AS resource, lim COLLATE "POSIX" AS lim, start, amount, count
FROM sluice.catalog_usage;

-- The first is for sums of a resource by entity, the second for its list in
-- order of time, the third for what is too old.
CREATE INDEX catalog_usage_resource ON sluice.catalog_usage (
    namespace COLLATE "POSIX", span COLLATE "POSIX", resource COLLATE "POSIX", entity COLLATE "POSIX", lim COLLATE "POSIX"
);
CREATE INDEX catalog_usage_time ON sluice.catalog_usage (
    namespace COLLATE "POSIX", span COLLATE "POSIX", resource COLLATE "POSIX", start, entity COLLATE "POSIX", lim COLLATE "POSIX"
);
CREATE INDEX catalog_usage_old ON sluice.catalog_usage (namespace COLLATE "POSIX", span COLLATE "POSIX", start);

-- The last batch of usage that each node has added.
CREATE TABLE sluice.catalog_node (
    node text COLLATE "C" PRIMARY KEY,
    seq  bigint NOT NULL,
    at   timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX catalog_node_at ON sluice.catalog_node (at);

-- catalog_durable_v1 makes an acknowledged commit survive a crash, also where
-- the database is set up not to wait for the disk.
CREATE FUNCTION sluice.catalog_durable_v1() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- catalog_steady_v1 makes lists follow an index whatever the planner knows of
-- the data, which may be old or nothing, for the transaction. Nothing of a list
-- is sorted, so there is no reason ever to read more than its page.
CREATE FUNCTION sluice.catalog_steady_v1() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
        set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
        set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
        set_config('enable_material', 'off', true), set_config('max_parallel_workers_per_gather', '0', true);
END $$;

-- catalog_change_v1 applies a batch of mutations and events to a namespace, or
-- answers which condition does not hold: conflict counts from 1, and present is
-- the version that the record has. Operations are those of catalog.Op: 0 puts,
-- 1 deletes, 2 only checks.
--
-- Everybody locks in the same order: the version's row, then records in order
-- of their keys, at the end the row that numbers changes.
CREATE FUNCTION sluice.catalog_change_v1(
    patience text, channel text, kept bigint, changing text,
    ops smallint[], namespaces text[], kinds text[], ids text[], subs text[], conditions bigint[],
    unders text[], tiers text[], sources text[], datas text[],
    event_namespaces text[], event_ids text[], event_subjects text[], event_datas text[],
    OUT fresh bigint, OUT conflict bigint, OUT present bigint
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    changes bigint;
    newest  bigint;
BEGIN
    PERFORM sluice.ready_v1(patience), sluice.catalog_durable_v1();
    SELECT v.version + 1 INTO fresh FROM sluice.catalog_version v WHERE v.namespace = changing FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO sluice.catalog_version (namespace, version) VALUES (changing, 0) ON CONFLICT DO NOTHING;
        SELECT v.version + 1 INTO fresh FROM sluice.catalog_version v WHERE v.namespace = changing FOR NO KEY UPDATE;
    END IF;

    -- Statements after the lock see what others committed before they gave it up.
    SELECT k.i, coalesce(r.version, 0) INTO conflict, present
    FROM unnest(namespaces, kinds, ids, subs, conditions) WITH ORDINALITY k (namespace, kind, id, sub, condition, i)
    LEFT JOIN sluice.catalog_record r
        ON r.namespace = k.namespace AND r.kind = k.kind AND r.id = k.id AND r.sub = k.sub
    WHERE CASE k.condition
        WHEN -1 THEN false
        WHEN -2 THEN r.version IS NULL
        ELSE k.condition <> coalesce(r.version, 0) -- 0 demands that there is none
    END
    ORDER BY k.i LIMIT 1;
    IF FOUND THEN
        RETURN;
    END IF;

    UPDATE sluice.catalog_version v SET version = fresh WHERE v.namespace = changing;
    IF 1 = ANY (ops) THEN
        PERFORM FROM unnest(ops, namespaces, kinds, ids, subs) k (op, namespace, kind, id, sub)
        JOIN sluice.catalog_record r
            ON r.namespace = k.namespace AND r.kind = k.kind AND r.id = k.id AND r.sub = k.sub
        WHERE k.op <> 2
        ORDER BY r.namespace, r.kind, r.id, r.sub
        FOR UPDATE OF r;
        DELETE FROM sluice.catalog_record r
        USING unnest(ops, namespaces, kinds, ids, subs) k (op, namespace, kind, id, sub)
        WHERE k.op = 1 AND r.namespace = k.namespace AND r.kind = k.kind AND r.id = k.id AND r.sub = k.sub;
    END IF;
    IF 0 = ANY (ops) THEN
        INSERT INTO sluice.catalog_record AS r (namespace, kind, id, sub, version, under, tier, source, data)
        SELECT k.namespace, k.kind, k.id, k.sub, fresh, k.under, k.tier, k.source, nullif(k.data, '')::json
        FROM unnest(ops, namespaces, kinds, ids, subs, unders, tiers, sources, datas)
            k (op, namespace, kind, id, sub, under, tier, source, data)
        WHERE k.op = 0
        ORDER BY k.namespace COLLATE "C", k.kind COLLATE "C", k.id COLLATE "C", k.sub COLLATE "C"
        ON CONFLICT (namespace, kind, id, sub) DO UPDATE SET version = excluded.version, under = excluded.under,
            tier = excluded.tier, source = excluded.source, data = excluded.data;
    END IF;
    IF event_ids <> '{}' THEN
        INSERT INTO sluice.catalog_event (namespace, id, subject, data)
        SELECT k.namespace, k.id, k.subject, nullif(k.data, '')::json
        FROM unnest(event_namespaces, event_ids, event_subjects, event_datas) k (namespace, id, subject, data)
        ORDER BY k.namespace COLLATE "C", k.id COLLATE "C";
    END IF;

    SELECT count(*) INTO changes FROM unnest(ops, kinds) k (op, kind) WHERE k.op <> 2 AND k.kind <> 'guard';
    IF changes > 0 THEN
        UPDATE sluice.catalog_last l SET seq = l.seq + changes RETURNING l.seq INTO newest;
        INSERT INTO sluice.catalog_change (seq, namespace, kind, id)
        SELECT newest - changes + row_number() OVER (), k.namespace, k.kind, k.id
        FROM unnest(ops, namespaces, kinds, ids) k (op, namespace, kind, id)
        WHERE k.op <> 2 AND k.kind <> 'guard';
        IF newest / 1000 > (newest - changes) / 1000 THEN -- now and then
            DELETE FROM sluice.catalog_change c WHERE c.seq <= newest - kept;
        END IF;
        PERFORM pg_notify(channel, '');
    END IF;
END $$;

-- catalog_resolve_v1 reads all that decides about an entity's use of a
-- resource: catalog.ResolveQuery. It is STABLE, so all of it is of one state.
CREATE FUNCTION sluice.catalog_resolve_v1(place text, entity text, tier text, resource text, depth int)
RETURNS SETOF sluice.catalog_record
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    chain text[] := '{}';
    tiers text[] := '{}';
    subs  text[] := ARRAY['', resource];
    here  text := entity;
    r     sluice.catalog_record;
BEGIN
    IF tier <> '' THEN
        tiers := ARRAY[tier];
    END IF;
    WHILE here <> '' AND here <> ALL (chain) AND cardinality(chain) < depth LOOP
        SELECT x.* INTO r FROM sluice.catalog_record x
        WHERE x.namespace = place AND x.kind = 'entity' AND x.id = here AND x.sub = '';
        IF NOT FOUND THEN
            IF chain = '{}' THEN -- what is stored for it counts all the same
                chain := ARRAY[here];
            END IF;
            EXIT;
        END IF;
        RETURN NEXT r;
        chain := chain || here;
        IF r.tier <> '' THEN
            tiers := tiers || r.tier;
        END IF;
        here := r.under;
    END LOOP;
    IF chain <> '{}' THEN
        RETURN QUERY SELECT x.* FROM sluice.catalog_record x
            WHERE x.namespace = place AND x.kind = 'entity-limits' AND x.id = ANY (chain) AND x.sub = ANY (subs);
        RETURN QUERY SELECT x.* FROM sluice.catalog_record x
            WHERE x.namespace = place AND x.kind = 'override' AND x.id = ANY (chain);
    END IF;
    IF tiers <> '{}' THEN
        RETURN QUERY SELECT x.* FROM sluice.catalog_record x
            WHERE x.namespace = place AND x.kind = 'tier' AND x.id = ANY (tiers) AND x.sub = '';
        RETURN QUERY SELECT x.* FROM sluice.catalog_record x
            WHERE x.namespace = place AND x.kind = 'tier-limits' AND x.id = ANY (tiers) AND x.sub = ANY (subs);
    END IF;
    IF resource <> '' THEN
        RETURN QUERY SELECT x.* FROM sluice.catalog_record x
            WHERE x.namespace = place AND x.kind = 'resource-limits' AND x.id = resource AND x.sub = '';
    END IF;
    RETURN QUERY SELECT x.* FROM sluice.catalog_record x
        WHERE x.namespace = place AND x.kind = 'system-limits' AND x.id = '' AND x.sub = '';
    RETURN QUERY SELECT x.* FROM sluice.catalog_record x
        WHERE x.namespace = '' AND x.kind = 'namespace' AND x.id = place AND x.sub = '';
END $$;

-- catalog_add_usage_v1 adds a node's batch, unless it or a later one was added
-- before. Rows come in order of their keys, so that nodes wait for each other
-- in one direction only.
CREATE FUNCTION sluice.catalog_add_usage_v1(
    patience text, sender text, number bigint,
    namespaces text[], spans text[], entities text[], resources text[], lims text[], starts bigint[],
    amounts bigint[], counts bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM sluice.ready_v1(patience), sluice.catalog_durable_v1();
    INSERT INTO sluice.catalog_node AS n (node, seq, at) VALUES (sender, number, clock_timestamp())
    ON CONFLICT (node) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE n.seq < excluded.seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO sluice.catalog_usage AS u (namespace, span, entity, resource, lim, start, amount, count)
    SELECT * FROM unnest(namespaces, spans, entities, resources, lims, starts, amounts, counts)
    ON CONFLICT (namespace, span, entity, resource, lim, start)
    DO UPDATE SET amount = u.amount + excluded.amount, count = u.count + excluded.count;
END $$;
