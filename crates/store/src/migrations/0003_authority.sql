-- What runs ask, until somebody has replied.
CREATE TABLE requests (
    id          TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    call_id     TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('approval', 'question')),
    addressee   TEXT NOT NULL CHECK (addressee IN ('parent', 'person')),
    body        TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replied', 'closed')),
    asked_at    INTEGER NOT NULL,
    -- When a person is asked instead of the parent.
    escalate_at INTEGER,
    expires_at  INTEGER NOT NULL,
    reply       TEXT,
    replied_at  INTEGER
);
CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX requests_open ON requests (expires_at) WHERE state = 'open';
CREATE INDEX requests_to_escalate ON requests (escalate_at)
    WHERE state = 'open' AND escalate_at IS NOT NULL;

-- Replies of other processes, until the owner of the store takes them in.
CREATE TABLE mailbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE,
    reply      TEXT NOT NULL,
    at         INTEGER NOT NULL
);

-- What persons allowed for a whole session.
CREATE TABLE grants (
    session TEXT NOT NULL,
    rule    TEXT NOT NULL,
    by      TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (session, rule)
);

-- An account belongs to the run with its id. It is closed when nobody draws from it any more.
CREATE TABLE accounts (
    account_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    upper_id   TEXT,
    closed     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX accounts_open ON accounts (upper_id) WHERE closed = 0;

-- One line for each kind that an account limits. Others are drawn from the account above.
CREATE TABLE account_lines (
    account_id TEXT NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    cap        INTEGER NOT NULL,
    spent      INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    reserved   INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    -- By how much a provider took more than was set aside, at most.
    overdrawn  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, kind)
) WITHOUT ROWID;

-- What is set aside for the question that a run has under way.
CREATE TABLE reservations (
    run_id     TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    tokens     INTEGER NOT NULL,
    usd_micros INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    children   INTEGER NOT NULL
);

-- Every call, in one chain for the whole store. Its lines outlive the runs, so nothing refers to
-- a record.
CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    body   TEXT NOT NULL,
    hash   BLOB NOT NULL
);
CREATE INDEX audit_by_run ON audit (run_id, seq);

-- Where the chain ends, so that a tail which is cut off is noticed.
CREATE TABLE audit_head (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO audit_head (id, seq, hash) VALUES (1, 0, zeroblob(32));

-- Who sent out whom, of all runs that the audit knows and those above them.
CREATE TABLE lineage (
    run_id    TEXT PRIMARY KEY,
    parent_id TEXT
) WITHOUT ROWID;
CREATE INDEX lineage_by_parent ON lineage (parent_id) WHERE parent_id IS NOT NULL;

-- The account that a run draws from.
ALTER TABLE runs ADD COLUMN account_id TEXT;
CREATE INDEX runs_by_account ON runs (account_id)
    WHERE account_id IS NOT NULL AND phase <> 'ended';
-- The time that its budget gives it, and the moment at which its whole tree has to be done.
ALTER TABLE runs ADD COLUMN wall_ms INTEGER;
ALTER TABLE runs ADD COLUMN not_after INTEGER;
-- What it changed in a worktree of its own.
ALTER TABLE runs ADD COLUMN changes TEXT;
-- Whether all its calls are in the audit: not those of runs that are older than the audit.
ALTER TABLE runs ADD COLUMN audited INTEGER NOT NULL DEFAULT 0;
