-- Entities, stored limits, tiers, keys, overrides, usage, audit.

-- How often each namespace was changed. Rows stay when a namespace goes, so
-- that versions never repeat.
CREATE TABLE catalog_version (
	namespace TEXT NOT NULL PRIMARY KEY,
	version   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE catalog_record (
	namespace TEXT NOT NULL,
	kind      TEXT NOT NULL,
	id        TEXT NOT NULL,
	sub       TEXT NOT NULL,
	version   INTEGER NOT NULL,
	under     TEXT NOT NULL,
	tier      TEXT NOT NULL,
	source    TEXT NOT NULL,
	used      INTEGER NOT NULL DEFAULT 0, -- unix microseconds
	data      BLOB NOT NULL,
	PRIMARY KEY (namespace, kind, id, sub)
) STRICT, WITHOUT ROWID;

CREATE INDEX catalog_record_under ON catalog_record (namespace, kind, under, id, sub) WHERE under <> '';
CREATE INDEX catalog_record_tier ON catalog_record (namespace, kind, tier, id, sub) WHERE tier <> '';
CREATE INDEX catalog_record_source ON catalog_record (namespace, kind, source, id, sub) WHERE source <> '';
-- The ids of keys are unique in all namespaces.
CREATE UNIQUE INDEX catalog_record_key ON catalog_record (id) WHERE kind = 'key';

-- What was changed of late, for other processes to forget. Numbers are not
-- used again and have no gaps.
CREATE TABLE catalog_change (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	namespace TEXT NOT NULL,
	kind      TEXT NOT NULL,
	id        TEXT NOT NULL
) STRICT;

CREATE TABLE catalog_event (
	namespace TEXT NOT NULL,
	id        TEXT NOT NULL,
	subject   TEXT NOT NULL,
	data      BLOB NOT NULL,
	PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX catalog_event_subject ON catalog_event (namespace, subject, id);

CREATE TABLE catalog_usage (
	namespace TEXT NOT NULL,
	span      TEXT NOT NULL,
	entity    TEXT NOT NULL,
	resource  TEXT NOT NULL,
	lim       TEXT NOT NULL,
	start     INTEGER NOT NULL, -- unix seconds
	amount    INTEGER NOT NULL, -- thousandths of a token
	count     INTEGER NOT NULL,
	PRIMARY KEY (namespace, span, entity, resource, lim, start)
) STRICT, WITHOUT ROWID;

-- The first is for sums of a resource by entity, the second for its list in
-- order of time, the third for what is too old.
CREATE INDEX catalog_usage_resource ON catalog_usage (namespace, span, resource, entity, lim, start);
CREATE INDEX catalog_usage_time ON catalog_usage (namespace, span, resource, start, entity, lim);
CREATE INDEX catalog_usage_old ON catalog_usage (namespace, span, start);

-- The last batch of usage that each node has added.
CREATE TABLE catalog_node (
	node TEXT NOT NULL PRIMARY KEY,
	seq  INTEGER NOT NULL,
	at   INTEGER NOT NULL -- unix seconds
) STRICT, WITHOUT ROWID;

CREATE INDEX catalog_node_at ON catalog_node (at);
