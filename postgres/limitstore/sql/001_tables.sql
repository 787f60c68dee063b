-- The tables. The names of a key are kept as text; see names.go for the few
-- that text cannot hold. They compare by their bytes, as they do in Go.

-- One bucket that is not full, or was not when it was last written: a full
-- bucket and no row mean the same.
CREATE SEQUENCE sluice.bucket_id;
CREATE TABLE sluice.bucket (
    namespace  text COLLATE "C" NOT NULL,
    entity     text COLLATE "C" NOT NULL,
    resource   text COLLATE "C" NOT NULL,
    limit_name text COLLATE "C" NOT NULL,

    id bigint NOT NULL DEFAULT nextval('sluice.bucket_id'), -- for flights

    -- The limit that the state was written under: sluice.Limit.
    algorithm smallint NOT NULL, -- 0 token bucket, 1 sliding, 2 fixed, 3 concurrency
    amount    bigint   NOT NULL,
    period    bigint   NOT NULL, -- microseconds
    burst     bigint   NOT NULL,
    calendar  smallint NOT NULL,
    zone      text COLLATE "C" NOT NULL,

    -- bucket.State: millitokens, and microseconds since the epoch.
    used     bigint NOT NULL,
    rem      bigint NOT NULL,
    at       bigint NOT NULL, -- State.Time
    consumed bigint NOT NULL,

    -- From then on the row means nothing, if nobody writes it. For a fixed
    -- window it is always the window's end.
    expires bigint NOT NULL,

    -- bucket.Ext, but for the flights.
    recalled    bigint NOT NULL DEFAULT 0,
    recall_cost bigint NOT NULL DEFAULT 0,
    counts      bigint[], -- of a sliding window
    holds       bigint[], -- four numbers each: node, sequence, amount, expiry; in order of expiry

    PRIMARY KEY (namespace, entity, resource, limit_name)
)
-- Rows are updated far more often than inserted. Room in each page, and no
-- index on anything that an update changes, let it stay in its page.
WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

-- Without limit_name, so that the planner does not take it for the primary key.
CREATE INDEX bucket_by_resource ON sluice.bucket (namespace, resource, entity);

-- One lease in a concurrency limit: bucket.Flight. A flight belongs to its
-- bucket's row and is only touched by who has locked that.
CREATE TABLE sluice.flight (
    bucket  bigint NOT NULL,
    lease   text COLLATE "C" NOT NULL,
    cost    bigint NOT NULL,
    expires bigint NOT NULL
);
CREATE INDEX flight_by_expiry ON sluice.flight (bucket, expires);
CREATE INDEX flight_by_lease ON sluice.flight (bucket, lease);

-- What a receipt remembers of one demand: what was asked, what was answered,
-- and what a lease costs now.
CREATE TYPE sluice.receipt_demand AS (
    namespace  text,
    entity     text,
    resource   text,
    limit_name text,
    algorithm  smallint,
    amount     bigint,
    period     bigint,
    burst      bigint,
    calendar   smallint,
    zone       text,
    cost       bigint,   -- as asked, 0 for one token
    flags      smallint, -- the rest of sluice.Demand; see args.go
    fits       boolean,
    held       boolean,
    consumed   bigint,
    remaining  bigint,
    retry      bigint,
    reset      bigint,
    charge     bigint
);

-- A take with a request id that had an effect, until it expires.
CREATE TABLE sluice.receipt (
    id      text COLLATE "C" PRIMARY KEY,
    print   bytea    NOT NULL, -- of what was asked, to tell a repetition from a mistake
    taken   bigint   NOT NULL,
    due     bigint   NOT NULL, -- when its caller may act
    expires bigint   NOT NULL,
    allowed boolean  NOT NULL,
    leased  boolean  NOT NULL,
    ended   smallint NOT NULL, -- 0, or the sluice.Action that ended the lease
    demands sluice.receipt_demand[] NOT NULL
);
CREATE INDEX receipt_by_expiry ON sluice.receipt (expires);

-- How far the sweeper has come, for all nodes together: one row.
CREATE TABLE sluice.sweep (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    swept_at   timestamptz NOT NULL DEFAULT '-infinity',
    namespace  text COLLATE "C" NOT NULL DEFAULT '',
    entity     text COLLATE "C" NOT NULL DEFAULT '',
    resource   text COLLATE "C" NOT NULL DEFAULT '',
    limit_name text COLLATE "C" NOT NULL DEFAULT ''
);
INSERT INTO sluice.sweep DEFAULT VALUES;
