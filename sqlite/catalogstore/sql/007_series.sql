-- Usage names each series once. A row of usage has the number of its series in
-- place of four names, and one narrow index in place of three wide ones.

CREATE TABLE catalog_series (
	id        INTEGER PRIMARY KEY,
	namespace TEXT NOT NULL,
	entity    TEXT NOT NULL,
	resource  TEXT NOT NULL,
	lim       TEXT NOT NULL
) STRICT;

CREATE TABLE catalog_bin (
	series INTEGER NOT NULL,
	span   TEXT NOT NULL,
	start  INTEGER NOT NULL, -- unix seconds; 0 in a total
	amount INTEGER NOT NULL, -- thousandths of a token
	count  INTEGER NOT NULL,
	last   INTEGER NOT NULL, -- unix microseconds; 0 is not known
	PRIMARY KEY (series, span, start)
) STRICT, WITHOUT ROWID;

INSERT INTO catalog_series (namespace, entity, resource, lim)
SELECT DISTINCT namespace, entity, resource, lim FROM catalog_usage;

CREATE UNIQUE INDEX catalog_series_names ON catalog_series (namespace, entity, resource, lim);
CREATE UNIQUE INDEX catalog_series_resource ON catalog_series (namespace, resource, entity, lim);

INSERT INTO catalog_bin
SELECT s.id, u.span, u.start, u.amount, u.count, u.last
FROM catalog_usage u CROSS JOIN catalog_series s USING (namespace, entity, resource, lim);

CREATE INDEX catalog_bin_old ON catalog_bin (span, start);

DROP TABLE catalog_usage;

-- Rows with their names.
CREATE VIEW catalog_usage AS
SELECT s.namespace, b.span, s.entity, s.resource, s.lim, b.start, b.amount, b.count, b.last, b.series
FROM catalog_series s CROSS JOIN catalog_bin b ON b.series = s.id;

-- A series goes with its last row.
CREATE TRIGGER catalog_bin_end AFTER DELETE ON catalog_bin BEGIN
	DELETE FROM catalog_series WHERE id = old.series AND NOT EXISTS (SELECT 1 FROM catalog_bin WHERE series = old.series);
END;
