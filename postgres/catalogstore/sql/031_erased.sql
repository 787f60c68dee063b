-- catalog_add_usage_v3 is catalog_add_usage_v2 for nodes that know what was
-- erased. It reports false, and adds nothing, if something was erased in one of
-- the namespaces since. Whoever erases changes the row in catalog_version, and
-- waits for those who have read it here.
CREATE FUNCTION sluice.catalog_add_usage_v3(
    patience text, sender text, number bigint, used text[], erased bigint[],
    namespaces text[], spans text[], entities text[], resources text[], lims text[], starts bigint[],
    amounts bigint[], counts bigint[], lasts bigint[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM sluice.ready_v1(patience);
    PERFORM FROM sluice.catalog_version v WHERE v.namespace = ANY (used COLLATE "C") ORDER BY v.namespace FOR SHARE;
    IF EXISTS (
        SELECT FROM unnest(used, erased) u (namespace, version)
        LEFT JOIN sluice.catalog_record g ON g.namespace = u.namespace COLLATE "C" AND g.kind = 'guard' AND g.id = 'erased' AND g.sub = ''
        WHERE coalesce(g.version, 0) <> u.version
    ) THEN
        RETURN false;
    END IF;
    PERFORM sluice.catalog_add_usage_v2(patience, sender, number, namespaces, spans, entities, resources, lims, starts, amounts, counts, lasts);
    RETURN true;
END $$;
