-- What each series has consumed in all, and when it was last taken.

-- In microseconds since the epoch; 0 is not known.
ALTER TABLE sluice.catalog_usage ADD COLUMN last bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW sluice.catalog_usage_indexed AS
SELECT namespace COLLATE "POSIX" AS namespace, span COLLATE "POSIX" AS span, entity COLLATE "POSIX" AS entity,
    resource COLLATE "POSIX" AS resource, lim COLLATE "POSIX" AS lim, start, amount, count, last
FROM sluice.catalog_usage;

-- A total is one row with a start of 0. It begins with the days that are kept.
-- Whoever adds usage meanwhile waits for the lock of the column above.
INSERT INTO sluice.catalog_usage (namespace, span, entity, resource, lim, start, amount, count)
SELECT namespace, 'total', entity, resource, lim, 0, sum(amount), sum(count)
FROM sluice.catalog_usage WHERE span = 'day' GROUP BY namespace, entity, resource, lim;

-- catalog_add_usage_v2 is catalog_add_usage_v1 with when each row was last taken.
CREATE FUNCTION sluice.catalog_add_usage_v2(
    patience text, sender text, number bigint,
    namespaces text[], spans text[], entities text[], resources text[], lims text[], starts bigint[],
    amounts bigint[], counts bigint[], lasts bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM sluice.ready_v1(patience), sluice.catalog_durable_v1();
    INSERT INTO sluice.catalog_node AS n (node, seq, at) VALUES (sender, number, clock_timestamp())
    ON CONFLICT (node) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE n.seq < excluded.seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO sluice.catalog_usage AS u (namespace, span, entity, resource, lim, start, amount, count, last)
    SELECT * FROM unnest(namespaces, spans, entities, resources, lims, starts, amounts, counts, lasts)
    ON CONFLICT (namespace, span, entity, resource, lim, start)
    DO UPDATE SET amount = u.amount + excluded.amount, count = u.count + excluded.count, last = greatest(u.last, excluded.last);
END $$;

-- Nodes that know no totals yet add to them nevertheless, in the same order of
-- keys as all others. They write every second, so that was when they last took.
CREATE OR REPLACE FUNCTION sluice.catalog_add_usage_v1(
    patience text, sender text, number bigint,
    namespaces text[], spans text[], entities text[], resources text[], lims text[], starts bigint[],
    amounts bigint[], counts bigint[]
) RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH given (namespace, span, entity, resource, lim, start, amount, count) AS (
        SELECT * FROM unnest(namespaces, spans, entities, resources, lims, starts, amounts, counts)
    ), every AS (
        SELECT * FROM given
        UNION ALL
        SELECT namespace, 'total', entity, resource, lim, 0, sum(amount)::bigint, sum(count)::bigint
        FROM given WHERE span = 'day' GROUP BY namespace, entity, resource, lim
    ), sorted AS (
        SELECT * FROM every ORDER BY namespace COLLATE "C", span COLLATE "C", entity COLLATE "C", resource COLLATE "C", lim COLLATE "C", start
    )
    SELECT sluice.catalog_add_usage_v2(patience, sender, number, array_agg(namespace), array_agg(span), array_agg(entity),
        array_agg(resource), array_agg(lim), array_agg(start), array_agg(amount), array_agg(count),
        array_agg((extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM sorted
$$;
