-- Stored responses of idempotent writes: idempotency.Record. Times are
-- microseconds since the epoch.
CREATE TABLE replay (
    id          BLOB PRIMARY KEY, -- a digest of the four names
    tenant      BLOB NOT NULL,
    method      BLOB NOT NULL,
    route       BLOB NOT NULL,
    key         BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    state       INTEGER NOT NULL, -- 0 running, 1 done, 2 failed
    token       BLOB NOT NULL,    -- of the latest claim
    attempts    INTEGER NOT NULL,
    started     INTEGER NOT NULL,
    lease       INTEGER NOT NULL,
    lease_ends  INTEGER NOT NULL,
    finished    INTEGER NOT NULL DEFAULT 0,
    expires     INTEGER NOT NULL,
    replays     INTEGER NOT NULL DEFAULT 0,
    replayed    INTEGER NOT NULL DEFAULT 0,
    size        INTEGER NOT NULL DEFAULT 0,
    result      BLOB
);
CREATE INDEX replay_by_expiry ON replay (expires);
CREATE INDEX replay_by_use ON replay (replayed) WHERE replays > 0;
CREATE INDEX replay_by_tenant ON replay (tenant, replayed) WHERE replays > 0;

-- Figures, of each tenant and of everyone.
CREATE TABLE replay_figure (
    everyone INTEGER NOT NULL,
    tenant   BLOB NOT NULL,
    name     TEXT NOT NULL,
    value    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (everyone, tenant, name)
);
CREATE INDEX replay_figure_by_age ON replay_figure (at);
