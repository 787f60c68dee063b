-- Usage names each series once. A row of usage has the number of its series in
-- place of four names, and two narrow indexes in place of four wide ones.

CREATE TABLE sluice.catalog_series (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    entity    text COLLATE "C" NOT NULL,
    resource  text COLLATE "C" NOT NULL,
    lim       text COLLATE "C" NOT NULL
);

CREATE VIEW sluice.catalog_series_indexed AS
SELECT id, namespace COLLATE "POSIX" AS namespace, entity COLLATE "POSIX" AS entity,
    resource COLLATE "POSIX" AS resource, lim COLLATE "POSIX" AS lim
FROM sluice.catalog_series;

CREATE TABLE sluice.catalog_bin (
    series bigint NOT NULL,
    start  bigint NOT NULL, -- seconds since the epoch; 0 in a total
    amount bigint NOT NULL, -- thousandths of a token
    count  bigint NOT NULL,
    last   bigint NOT NULL, -- microseconds since the epoch; 0 is not known
    span   text COLLATE "C" NOT NULL
)
-- As for catalog_usage before: updates stay in their pages.
WITH (fillfactor = 80);

INSERT INTO sluice.catalog_series (namespace, entity, resource, lim)
SELECT DISTINCT namespace, entity, resource, lim FROM sluice.catalog_usage ORDER BY 1, 2, 3, 4;

-- Before there are rows, because each checks by it that it is the only one.
ALTER TABLE sluice.catalog_series ADD CONSTRAINT catalog_series_names UNIQUE (namespace, entity, resource, lim);

INSERT INTO sluice.catalog_bin (series, start, amount, count, last, span)
SELECT s.id, u.start, u.amount, u.count, u.last, u.span
FROM sluice.catalog_usage u JOIN sluice.catalog_series s USING (namespace, entity, resource, lim)
ORDER BY s.id, u.span, u.start;

CREATE INDEX catalog_series_resource ON sluice.catalog_series (
    namespace COLLATE "POSIX", resource COLLATE "POSIX", entity COLLATE "POSIX", lim COLLATE "POSIX"
);
ALTER TABLE sluice.catalog_bin ADD PRIMARY KEY (series, span, start);
-- For what is too old. Rows of one hour share an entry.
CREATE INDEX catalog_bin_old ON sluice.catalog_bin (span COLLATE "POSIX", start);

CREATE VIEW sluice.catalog_bin_indexed AS
SELECT series, start, amount, count, last, span COLLATE "POSIX" AS span FROM sluice.catalog_bin;

DROP VIEW sluice.catalog_usage_indexed;
DROP TABLE sluice.catalog_usage;

-- Rows with their names. Nodes of earlier versions read and remove usage here.
CREATE VIEW sluice.catalog_usage AS
SELECT s.namespace, b.span, s.entity, s.resource, s.lim, b.start, b.amount, b.count, b.last, b.series
FROM sluice.catalog_series s JOIN sluice.catalog_bin b ON b.series = s.id;

CREATE VIEW sluice.catalog_usage_indexed AS
SELECT s.namespace, b.span COLLATE "POSIX" AS span, s.entity, s.resource, s.lim, b.start, b.amount, b.count, b.last, b.series
FROM sluice.catalog_series_indexed s JOIN sluice.catalog_bin b ON b.series = s.id;

CREATE FUNCTION sluice.catalog_remove_usage_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM sluice.catalog_bin b USING sluice.catalog_series s
    WHERE s.namespace = OLD.namespace AND s.entity = OLD.entity AND s.resource = OLD.resource AND s.lim = OLD.lim
    AND b.series = s.id AND b.span = OLD.span AND b.start = OLD.start;
    RETURN OLD;
END $$;

CREATE TRIGGER catalog_usage_remove INSTEAD OF DELETE ON sluice.catalog_usage
FOR EACH ROW EXECUTE FUNCTION sluice.catalog_remove_usage_v1();

-- A series goes with its last row. Whoever adds usage shares a lock, so that no
-- series goes between being found and getting a row.
CREATE FUNCTION sluice.catalog_keep_series_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('sluice.catalog_series', 0));
    RETURN NULL;
END $$;

CREATE FUNCTION sluice.catalog_end_series_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    DELETE FROM sluice.catalog_series s USING (SELECT DISTINCT series FROM gone) g
    WHERE s.id = g.series AND NOT EXISTS (SELECT FROM sluice.catalog_bin b WHERE b.series = g.series);
    RETURN NULL;
END $$;

CREATE TRIGGER catalog_bin_keep BEFORE DELETE ON sluice.catalog_bin
FOR EACH STATEMENT EXECUTE FUNCTION sluice.catalog_keep_series_v1();
CREATE TRIGGER catalog_bin_end AFTER DELETE ON sluice.catalog_bin REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION sluice.catalog_end_series_v1();

-- The other versions call this one.
CREATE OR REPLACE FUNCTION sluice.catalog_add_usage_v2(
    patience text, sender text, number bigint,
    namespaces text[], spans text[], entities text[], resources text[], lims text[], starts bigint[],
    amounts bigint[], counts bigint[], lasts bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    PERFORM sluice.ready_v1(patience), sluice.catalog_durable_v1();
    INSERT INTO sluice.catalog_node AS n (node, seq, at) VALUES (sender, number, clock_timestamp())
    ON CONFLICT (node) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE n.seq < excluded.seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('sluice.catalog_series', 0));
    INSERT INTO sluice.catalog_series (namespace, entity, resource, lim)
    SELECT DISTINCT g.namespace COLLATE "C", g.entity COLLATE "C", g.resource COLLATE "C", g.lim COLLATE "C"
    FROM unnest(namespaces, entities, resources, lims) g (namespace, entity, resource, lim)
    WHERE NOT EXISTS (
        SELECT FROM sluice.catalog_series s WHERE s.namespace = g.namespace COLLATE "C" AND s.entity = g.entity COLLATE "C"
        AND s.resource = g.resource COLLATE "C" AND s.lim = g.lim COLLATE "C"
    )
    ORDER BY 1, 2, 3, 4
    ON CONFLICT DO NOTHING;
    INSERT INTO sluice.catalog_bin AS b (series, start, amount, count, last, span)
    SELECT s.id, g.start, g.amount, g.count, g.last, g.span
    FROM unnest(namespaces, spans, entities, resources, lims, starts, amounts, counts, lasts)
        g (namespace, span, entity, resource, lim, start, amount, count, last)
    JOIN sluice.catalog_series s ON s.namespace = g.namespace COLLATE "C" AND s.entity = g.entity COLLATE "C"
        AND s.resource = g.resource COLLATE "C" AND s.lim = g.lim COLLATE "C"
    ORDER BY s.id, g.span COLLATE "C", g.start
    ON CONFLICT (series, span, start)
    DO UPDATE SET amount = b.amount + excluded.amount, count = b.count + excluded.count, last = greatest(b.last, excluded.last);
END $$;
