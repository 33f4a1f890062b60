-- A run: what it was admitted with, how far it is, who holds it, and the end of its journal.
CREATE TABLE runs (
    run_id                TEXT PRIMARY KEY,
    root_id               TEXT NOT NULL,
    parent_id             TEXT,
    parent_call           TEXT,
    mode                  TEXT,
    session               TEXT NOT NULL,
    child_session         TEXT NOT NULL,
    agent                 TEXT NOT NULL,
    lane                  TEXT NOT NULL,
    priority              TEXT NOT NULL,
    label                 TEXT NOT NULL,
    task                  TEXT NOT NULL,
    thinking              TEXT,
    depth                 INTEGER NOT NULL,
    announce              TEXT NOT NULL,
    cleanup               TEXT NOT NULL,
    report_to             TEXT NOT NULL,
    timeout_ms            INTEGER,
    -- Where it is.
    status                TEXT NOT NULL DEFAULT 'pending',
    phase                 TEXT NOT NULL DEFAULT 'queued'
                          CHECK (phase IN ('queued', 'leased', 'parked', 'ended')),
    queue_key             INTEGER NOT NULL,
    cancel                TEXT,
    inbox_count           INTEGER NOT NULL DEFAULT 0,
    outcome               TEXT,
    delivery              TEXT NOT NULL,
    delivery_error        TEXT,
    -- When.
    created_at            INTEGER NOT NULL,
    started_at            INTEGER,
    deadline_at           INTEGER,
    ended_at              INTEGER,
    cleaned_at            INTEGER,
    archived_at           INTEGER,
    -- Who holds it, and how often its holders died.
    lease_owner           TEXT,
    lease_until           INTEGER,
    epoch                 INTEGER NOT NULL DEFAULT 0,
    recovered             INTEGER NOT NULL DEFAULT 0,
    deaths                INTEGER NOT NULL DEFAULT 0,
    deaths_since_progress INTEGER NOT NULL DEFAULT 0,
    head_at_claim         INTEGER NOT NULL DEFAULT 0,
    -- The end of its journal.
    head_seq              INTEGER NOT NULL DEFAULT 0,
    head_hash             BLOB NOT NULL,
    -- What the journal adds up to.
    model                 TEXT NOT NULL,
    waiting_on            TEXT,
    progress              INTEGER NOT NULL DEFAULT 0,
    tool_calls            INTEGER NOT NULL DEFAULT 0,
    input_tokens          INTEGER,
    output_tokens         INTEGER,
    cache_read_tokens     INTEGER,
    cache_write_tokens    INTEGER,
    cost_usd              REAL,
    last_text             TEXT
);

-- The key of idempotence: a parent's call has at most one child.
CREATE UNIQUE INDEX runs_by_call ON runs (parent_id, parent_call) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_by_root ON runs (root_id, run_id);
CREATE INDEX runs_by_session ON runs (session, run_id);
CREATE INDEX runs_by_status ON runs (status, run_id) WHERE archived_at IS NULL;
-- The work at hand. Partial, so that they stay small however many runs have ended.
CREATE INDEX runs_queued ON runs (lane, queue_key, run_id, parent_id, root_id)
    WHERE phase = 'queued';
CREATE INDEX runs_leased ON runs (lane, parent_id, root_id) WHERE phase = 'leased';
CREATE INDEX runs_by_lease ON runs (lease_until) WHERE phase = 'leased';
CREATE INDEX runs_parked ON runs (deadline_at) WHERE phase = 'parked';
-- The work of the archive.
CREATE INDEX runs_to_archive ON runs (ended_at) WHERE phase = 'ended' AND archived_at IS NULL;
CREATE INDEX runs_to_clean ON runs (ended_at)
    WHERE phase = 'ended' AND cleanup = 'delete' AND cleaned_at IS NULL AND archived_at IS NULL;
CREATE INDEX roots_by_end ON runs (ended_at) WHERE phase = 'ended' AND parent_id IS NULL;

-- The facts. Each hash covers the one before, so nothing can be changed, dropped or moved unseen.
CREATE TABLE journal (
    run_id  TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,
    hash    BLOB NOT NULL
);
CREATE UNIQUE INDEX journal_by_run ON journal (run_id, seq);

-- Who asked for whom, and whether the answer has arrived.
CREATE TABLE edges (
    child_id  TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    parent_id TEXT NOT NULL,
    call_id   TEXT NOT NULL,
    mode      TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('open', 'delivered', 'blocked', 'silent'))
);

-- What waits for a run. The key of an announcement is its child, so it enters once; a message that
-- somebody sends has no key and always enters.
CREATE TABLE inbox (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    key    TEXT,
    item   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    UNIQUE (run_id, key)
);

-- Results on their way: to a parent inside the store, or to a sink outside.
CREATE TABLE outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id       TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    target       TEXT NOT NULL CHECK (target IN ('parent', 'sink')),
    sink         TEXT,
    announcement TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'pending'
                 CHECK (state IN ('pending', 'delivered', 'blocked', 'dismissed')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL,
    error        TEXT
);
CREATE INDEX outbox_by_run ON outbox (run_id);
CREATE INDEX outbox_due ON outbox (target, next_at, id) WHERE state = 'pending';

-- Long outputs, named by their content.
CREATE TABLE blobs (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    id     TEXT NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (run_id, id)
);
