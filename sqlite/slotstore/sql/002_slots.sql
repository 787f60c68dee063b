-- Plans, windows, slots and their executions. Times are microseconds since
-- 1970.

CREATE TABLE slot_plan (
    id        INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    version   INTEGER NOT NULL, -- the active one
    paused    INTEGER NOT NULL DEFAULT 0,
    eras      TEXT NOT NULL,    -- JSON: from when on windows have which size
    UNIQUE (namespace, name)
);

CREATE TABLE slot_version (
    plan           INTEGER NOT NULL REFERENCES slot_plan,
    version        INTEGER NOT NULL,
    max_per_window INTEGER NOT NULL,
    window_size    INTEGER NOT NULL,
    headroom       INTEGER NOT NULL,
    calendar       TEXT, -- JSON
    created        INTEGER NOT NULL,
    starts         INTEGER NOT NULL,
    PRIMARY KEY (plan, version)
) WITHOUT ROWID;

CREATE TABLE slot_window (
    plan  INTEGER NOT NULL REFERENCES slot_plan,
    start INTEGER NOT NULL,
    size  INTEGER NOT NULL,
    cap   INTEGER NOT NULL, -- of the active plan; 0 where it has no such window
    used  INTEGER NOT NULL DEFAULT 0,
    room  INTEGER NOT NULL, -- whether used < cap
    open  TEXT,             -- JSON: from and to, in turn; NULL for all of it
    PRIMARY KEY (plan, start)
) WITHOUT ROWID;

-- Searches go by it, so full windows cost them nothing.
CREATE INDEX slot_window_room ON slot_window (plan, start) WHERE room;

-- A stretch of time whose windows are all there; what is over may be cut off.
CREATE TABLE slot_run (
    plan  INTEGER NOT NULL REFERENCES slot_plan,
    start INTEGER NOT NULL,
    stop  INTEGER NOT NULL,
    PRIMARY KEY (plan, start)
) WITHOUT ROWID;

CREATE TABLE slot (
    namespace TEXT NOT NULL,
    event     TEXT NOT NULL,
    plan      INTEGER NOT NULL REFERENCES slot_plan,
    version   INTEGER NOT NULL,
    win       INTEGER NOT NULL, -- start of the window
    at        INTEGER NOT NULL, -- when it is scheduled
    requested INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    state     INTEGER NOT NULL DEFAULT 0, -- schedule.State
    due       INTEGER NOT NULL,           -- when it can be claimed, or claimed again; of a finished one, when it or its window ended
    attempts  INTEGER NOT NULL DEFAULT 0,
    fence     INTEGER NOT NULL DEFAULT 0,
    worker    TEXT NOT NULL DEFAULT '',
    payload   BLOB,
    PRIMARY KEY (namespace, event)
);
CREATE INDEX slot_by_time ON slot (plan, at);
CREATE INDEX slot_by_due ON slot (plan, due) WHERE state < 2;
CREATE INDEX slot_by_end ON slot (plan, due) WHERE state >= 2; -- to sweep them

-- Only ever added to, and swept.
CREATE TABLE slot_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    time      INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    plan      INTEGER NOT NULL,
    event     TEXT NOT NULL DEFAULT '',
    action    TEXT NOT NULL, -- schedule.Action
    attempt   INTEGER NOT NULL DEFAULT 0,
    fence     INTEGER NOT NULL DEFAULT 0,
    worker    TEXT NOT NULL DEFAULT '',
    scheduled INTEGER,
    granted   INTEGER,
    started   INTEGER,
    finished  INTEGER,
    detail    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX slot_audit_by_event ON slot_audit (namespace, event, id);
CREATE INDEX slot_audit_by_plan ON slot_audit (plan, id);

-- Rises with every flush and every change of a plan.
CREATE TABLE slot_flush (n INTEGER NOT NULL);
INSERT INTO slot_flush VALUES (0);
