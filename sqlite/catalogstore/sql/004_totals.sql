-- When each series was last taken, in unix microseconds; 0 is not known.
ALTER TABLE catalog_usage ADD COLUMN last INTEGER NOT NULL DEFAULT 0;

-- What each series has consumed in all, as far back as days are kept.
INSERT INTO catalog_usage (namespace, span, entity, resource, lim, start, amount, count)
SELECT namespace, 'total', entity, resource, lim, 0, sum(amount), sum(count)
FROM catalog_usage WHERE span = 'day' GROUP BY namespace, entity, resource, lim;
