-- The tables of the store, for both databases. `schema.rs` translates the types for PostgreSQL.

-- One row for each run: its admission, its progress, its lease and the head of its journal.
CREATE TABLE runs (
    run_id                TEXT PRIMARY KEY,
    -- The short name that people see and type.
    handle                TEXT NOT NULL,
    root_id               TEXT NOT NULL,
    parent_id             TEXT,
    parent_call           TEXT,
    mode                  TEXT,
    session               TEXT NOT NULL,
    child_session         TEXT NOT NULL,
    -- NULL for runs that belong to no tenant.
    tenant                TEXT,
    agent                 TEXT NOT NULL,
    lane                  TEXT NOT NULL,
    priority              TEXT NOT NULL,
    label                 TEXT NOT NULL,
    task                  TEXT NOT NULL,
    thinking              TEXT,
    workspace             TEXT NOT NULL,
    depth                 INTEGER NOT NULL,
    announce              TEXT NOT NULL,
    cleanup               TEXT NOT NULL,
    report_to             TEXT NOT NULL,
    -- What hooks observe of it, as a JSON array; NULL for nothing.
    hooks                 TEXT,
    -- Limits on time: for the run, for its budget, and the moment by which its whole tree must end.
    timeout_ms            INTEGER,
    wall_ms               INTEGER,
    not_after             INTEGER,
    -- The account that it draws from.
    account_id            TEXT,
    -- The labels that its worker must have, as a sorted JSON array; NULL for none.
    requires              TEXT,
    -- State.
    status                TEXT NOT NULL DEFAULT 'pending',
    phase                 TEXT NOT NULL DEFAULT 'queued'
                          CHECK (phase IN ('queued', 'leased', 'parked', 'ended')),
    queue_key             INTEGER NOT NULL,
    cancel                TEXT,
    -- Never set for a run that has ended or has a cancellation.
    paused                INTEGER NOT NULL DEFAULT 0,
    inbox_count           INTEGER NOT NULL DEFAULT 0,
    outcome               TEXT,
    delivery              TEXT NOT NULL,
    delivery_error        TEXT,
    -- Times.
    created_at            INTEGER NOT NULL,
    started_at            INTEGER,
    deadline_at           INTEGER,
    ended_at              INTEGER,
    cleaned_at            INTEGER,
    archived_at           INTEGER,
    -- The lease, and how often a process died that held one.
    lease_owner           TEXT,
    lease_until           INTEGER,
    epoch                 INTEGER NOT NULL DEFAULT 0,
    recovered             INTEGER NOT NULL DEFAULT 0,
    deaths                INTEGER NOT NULL DEFAULT 0,
    deaths_since_progress INTEGER NOT NULL DEFAULT 0,
    head_at_claim         INTEGER NOT NULL DEFAULT 0,
    -- The head of its journal.
    head_seq              INTEGER NOT NULL DEFAULT 0,
    head_hash             BLOB NOT NULL,
    -- The summary that the journal folds to.
    model                 TEXT NOT NULL,
    waiting_on            TEXT,
    -- Its position among the prompts to its model, while the provider's rate limit delays it.
    wait_position         INTEGER,
    progress              INTEGER NOT NULL DEFAULT 0,
    tool_calls            INTEGER NOT NULL DEFAULT 0,
    input_tokens          INTEGER,
    output_tokens         INTEGER,
    cache_read_tokens     INTEGER,
    cache_write_tokens    INTEGER,
    cost_usd              REAL,
    -- Completions of unknown cost: a sum that includes one of them is unknown too.
    unpriced              INTEGER NOT NULL DEFAULT 0,
    last_text             TEXT,
    -- The usage of its ended descendants. Kept here so that it outlives their records.
    children_input_tokens       INTEGER,
    children_output_tokens      INTEGER,
    children_cache_read_tokens  INTEGER,
    children_cache_write_tokens INTEGER,
    children_cost_usd           REAL,
    children_unpriced           INTEGER NOT NULL DEFAULT 0,
    -- The changes in its worktree, and whether a person applied or discarded them.
    changes               TEXT,
    changes_fate          TEXT,
    -- Bytes of its task, journal entries and outputs, before compression.
    stored_bytes          INTEGER NOT NULL DEFAULT 0
);

-- The idempotency key of a spawn: a parent's call has at most one child.
CREATE UNIQUE INDEX runs_by_call ON runs (parent_id, parent_call) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX runs_by_handle ON runs (handle);
CREATE INDEX runs_by_root ON runs (root_id, run_id);
CREATE INDEX runs_by_session ON runs (session, run_id);
CREATE INDEX runs_by_status ON runs (status, run_id) WHERE archived_at IS NULL;
CREATE INDEX runs_by_agent ON runs (agent, run_id);
CREATE INDEX runs_by_tenant ON runs (tenant, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX roots ON runs (run_id) WHERE parent_id IS NULL;
-- The turns of conversations, with every column that the list of conversations reads.
CREATE INDEX turns ON runs (session, tenant, created_at, run_id, lane, parent_id)
    WHERE parent_id IS NULL AND lane = 'main';
-- Usage over time. No more columns: they change with every completion, and so would the index.
CREATE INDEX runs_by_creation ON runs (created_at);
-- Active runs. Partial, so that these indexes stay small however many runs have ended.
CREATE INDEX runs_active ON runs (root_id, run_id) WHERE phase <> 'ended';
-- A claim reads the queue of each tenant by itself. Runs without a tenant have the empty one.
CREATE INDEX runs_queued
    ON runs (lane, COALESCE(tenant, ''), queue_key, run_id, parent_id, root_id, requires)
    WHERE phase = 'queued' AND paused = 0;
-- The runs that count in the quota of queued ones.
CREATE INDEX runs_pending ON runs (tenant) WHERE status = 'pending' AND tenant IS NOT NULL;
-- Those that require labels.
CREATE INDEX runs_requiring ON runs (requires)
    WHERE phase = 'queued' AND paused = 0 AND requires IS NOT NULL;
-- The same runs by tree and parent: whole trees that are at their limit are skipped in one step.
CREATE INDEX runs_queued_by_tree
    ON runs (lane, COALESCE(tenant, ''), root_id, parent_id, queue_key, run_id)
    WHERE phase = 'queued' AND paused = 0;
CREATE INDEX runs_paused ON runs (deadline_at) WHERE phase = 'queued' AND paused = 1;
CREATE INDEX runs_leased ON runs (lane, lease_owner, parent_id, root_id, tenant)
    WHERE phase = 'leased';
CREATE INDEX runs_by_lease ON runs (lease_until) WHERE phase = 'leased';
CREATE INDEX runs_parked ON runs (deadline_at) WHERE phase = 'parked';
-- Runs whose process died.
CREATE INDEX runs_suspected ON runs (queue_key, run_id) WHERE phase = 'queued' AND deaths > 0;
CREATE INDEX runs_by_account ON runs (account_id)
    WHERE account_id IS NOT NULL AND phase <> 'ended';
-- Retention.
CREATE INDEX runs_to_archive ON runs (ended_at) WHERE phase = 'ended' AND archived_at IS NULL;
CREATE INDEX runs_to_clean ON runs (ended_at)
    WHERE phase = 'ended' AND cleanup = 'delete' AND cleaned_at IS NULL;
CREATE INDEX roots_by_end ON runs (ended_at) WHERE phase = 'ended' AND parent_id IS NULL;

-- The number of descendants that each tree ever had. Counting them at every admission would make a
-- tree of n runs cost n².
CREATE TABLE trees (
    root_id     TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    descendants INTEGER NOT NULL
) WITHOUT ROWID;

-- The folded history of a conversation, so that a turn does not fold all earlier turns again.
-- Derived from journals: ignored unless it fits the head of its run's journal, and deleted by a trigger
-- together with any journal of the conversation.
CREATE TABLE snapshots (
    session   TEXT NOT NULL,
    -- Empty for runs without a tenant.
    tenant    TEXT NOT NULL,
    -- The last run that it contains.
    run_id    TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    head_hash BLOB NOT NULL,
    -- Over the head and the body.
    hash      BLOB NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (session, tenant)
);
CREATE INDEX snapshots_by_run ON snapshots (run_id);

-- Events. Each hash covers the previous one, so no entry can be changed, dropped or moved unnoticed.
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

-- The journals of archived runs, compressed. Their entries are not in `journal`; later ones are.
CREATE TABLE archives (
    run_id   TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    -- Bytes of `body` before the compression.
    unpacked INTEGER NOT NULL,
    body     BLOB NOT NULL
);

-- Messages for runs. The key of an announcement is its child, so it enters once; a message from a
-- person or a parent has no key and always enters.
CREATE TABLE inbox (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    key    TEXT,
    item   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    UNIQUE (run_id, key)
);
CREATE INDEX inbox_by_run ON inbox (run_id, id);

-- Results still to be delivered: to a parent or a session inside the store, or to a sink outside. One
-- for a session waits while no turn of the session is active.
CREATE TABLE outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id       TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    target       TEXT NOT NULL CHECK (target IN ('parent', 'session', 'sink')),
    -- The address of a sink, or the key of a session.
    sink         TEXT,
    announcement TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'pending'
                 CHECK (state IN ('pending', 'waiting', 'delivered', 'blocked', 'dismissed')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL,
    error        TEXT
);
CREATE INDEX outbox_by_run ON outbox (run_id);
CREATE INDEX outbox_due ON outbox (target, next_at, id) WHERE state = 'pending';
CREATE INDEX outbox_blocked ON outbox (run_id) WHERE state = 'blocked';
CREATE INDEX outbox_waiting ON outbox (sink) WHERE state = 'waiting';

-- Messages for receivers outside: hooks. They outlive the runs, so they reference no row of `runs`. A
-- delivered letter is removed.
CREATE TABLE letters (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The same for every attempt, so that the receiver can detect a repetition.
    key      TEXT NOT NULL UNIQUE,
    receiver TEXT NOT NULL,
    run_id   TEXT,
    kind     TEXT NOT NULL,
    body     TEXT NOT NULL,
    -- Letters of one queue are delivered in their order.
    queue    TEXT,
    state    TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'dead')),
    attempts INTEGER NOT NULL DEFAULT 0,
    at       INTEGER NOT NULL,
    next_at  INTEGER NOT NULL,
    error    TEXT
);
CREATE INDEX letters_due ON letters (next_at, id) WHERE state = 'pending';
CREATE INDEX letters_in_queue ON letters (queue, id)
    WHERE state = 'pending' AND queue IS NOT NULL;
CREATE INDEX letters_by_state ON letters (state, id);
CREATE INDEX letters_by_receiver ON letters (receiver, state);

-- Long outputs, named by the hash of their content.
CREATE TABLE blobs (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    id     TEXT NOT NULL,
    bytes  BLOB NOT NULL,
    -- The length of the content if `bytes` is compressed, as outputs of archived runs are.
    unpacked INTEGER,
    PRIMARY KEY (run_id, id)
);

-- Approval requests and questions of runs.
CREATE TABLE requests (
    id          TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    call_id     TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('approval', 'question')),
    addressee   TEXT NOT NULL CHECK (addressee IN ('parent', 'person')),
    body        TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replied', 'closed')),
    asked_at    INTEGER NOT NULL,
    -- When a question moves from the parent to a person.
    escalate_at INTEGER,
    expires_at  INTEGER NOT NULL,
    reply       TEXT,
    replied_at  INTEGER
);
CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX requests_open ON requests (expires_at) WHERE state = 'open';
CREATE INDEX requests_to_escalate ON requests (escalate_at)
    WHERE state = 'open' AND escalate_at IS NOT NULL;
-- Pages of requests: the open ones, oldest first; and all, newest first.
CREATE INDEX requests_open_by_time ON requests (asked_at, id) WHERE state = 'open';
CREATE INDEX requests_by_time ON requests (asked_at, id) WHERE state <> 'closed';

-- What other processes left, until the process that owns the store reads it: replies to requests, and
-- operations on runs.
CREATE TABLE mailbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT UNIQUE,
    reply      TEXT,
    run_id     TEXT,
    control    TEXT,
    at         INTEGER NOT NULL,
    CHECK ((request_id IS NULL) = (reply IS NULL)),
    CHECK ((run_id IS NULL) = (control IS NULL)),
    CHECK ((request_id IS NULL) <> (run_id IS NULL))
);

-- Grants that approvers gave for a whole session. The empty tenant stands for runs without one.
CREATE TABLE grants (
    tenant  TEXT NOT NULL DEFAULT '',
    session TEXT NOT NULL,
    rule    TEXT NOT NULL,
    by      TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, rule)
);

-- An account has the id of the run that owns it. It closes when no run draws from it any more.
CREATE TABLE accounts (
    account_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    upper_id   TEXT,
    closed     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX accounts_open ON accounts (upper_id) WHERE closed = 0;

-- One line for each kind that an account limits. Other kinds are drawn from the account above.
CREATE TABLE account_lines (
    account_id TEXT NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    cap        INTEGER NOT NULL,
    spent      INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    reserved   INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    -- The most by which charges of a provider exceeded what was reserved.
    overdrawn  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, kind)
) WITHOUT ROWID;

-- The reservation of a run for the prompt in flight.
CREATE TABLE reservations (
    run_id     TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    tokens     INTEGER NOT NULL,
    usd_micros INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    children   INTEGER NOT NULL
);

-- The usage of all runs that have ended, by the day of their end (UTC, counted from 1970-01-01), as sums
-- of shards. Kept when runs are deleted.
CREATE TABLE usage_days (
    day                INTEGER NOT NULL,
    -- Empty for runs without a tenant.
    tenant             TEXT NOT NULL,
    agent              TEXT NOT NULL,
    model              TEXT NOT NULL,
    shard              INTEGER NOT NULL,
    runs               INTEGER NOT NULL,
    tool_calls         INTEGER NOT NULL,
    unpriced           INTEGER NOT NULL,
    input_tokens       INTEGER,
    output_tokens      INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    cost_nanos         INTEGER,
    PRIMARY KEY (day, tenant, agent, model, shard)
) WITHOUT ROWID;

-- The weights and quotas of tenants as JSON, from the configuration of the front process. `*` stands
-- for tenants that are not named.
CREATE TABLE tenants (
    tenant TEXT PRIMARY KEY,
    limits TEXT NOT NULL
) WITHOUT ROWID;

-- The tokens and the cost that each tenant spent on a day (UTC, counted from 1970-01-01), as sums of
-- shards, so that transitions do not wait for each other's rows.
CREATE TABLE tenant_days (
    tenant     TEXT NOT NULL,
    day        INTEGER NOT NULL,
    shard      INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    cost_nanos INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, shard)
) WITHOUT ROWID;

-- The bytes of the ended runs of each tenant, as sums of shards.
CREATE TABLE tenant_storage (
    tenant TEXT NOT NULL,
    shard  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL,
    PRIMARY KEY (tenant, shard)
) WITHOUT ROWID;

-- Whose turn it is among tenants that wait for the same slots. The empty tenant stands for runs without
-- one.
CREATE TABLE tenant_turns (
    lane   TEXT NOT NULL,
    tenant TEXT NOT NULL,
    turn   INTEGER NOT NULL,
    PRIMARY KEY (lane, tenant)
) WITHOUT ROWID;

-- Every tool call, in one hash chain for the whole store. Lines outlive the runs, so they reference
-- no row of `runs`. The tenant is also in the body, under the hash.
CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    tenant TEXT,
    body   TEXT NOT NULL,
    hash   BLOB NOT NULL
);
CREATE INDEX audit_by_run ON audit (run_id, seq);
CREATE INDEX audit_by_tenant ON audit (tenant, seq) WHERE tenant IS NOT NULL;

-- The head of the audit chain, so that a truncated tail is noticed.
CREATE TABLE audit_head (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO audit_head (id, seq, hash) VALUES (1, 0, zeroblob(32));

-- The parents of all runs in the audit and of their ancestors; outlives the runs.
CREATE TABLE lineage (
    run_id    TEXT PRIMARY KEY,
    parent_id TEXT
) WITHOUT ROWID;
CREATE INDEX lineage_by_parent ON lineage (parent_id) WHERE parent_id IS NOT NULL;

-- Idempotency keys of requests, with the responses.
CREATE TABLE once (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    status      INTEGER,
    body        BLOB
);
CREATE INDEX once_by_age ON once (at);

-- The usage of deleted runs.
CREATE TABLE deleted_usage (
    session            TEXT NOT NULL,
    agent              TEXT NOT NULL,
    model              TEXT NOT NULL,
    -- Empty for runs without a tenant.
    tenant             TEXT NOT NULL,
    runs               INTEGER NOT NULL,
    tool_calls         INTEGER NOT NULL,
    unpriced           INTEGER NOT NULL,
    input_tokens       INTEGER,
    output_tokens      INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    cost_nanos         INTEGER,
    PRIMARY KEY (session, agent, model, tenant)
) WITHOUT ROWID;

-- The usage of runs that have ended, deleted ones included. Costs are billionths of a dollar, so that
-- sums are exact.
CREATE VIEW ended_usage AS
    SELECT session, agent, model, COALESCE(tenant, '') AS tenant, 1 AS runs, tool_calls,
           CASE WHEN unpriced > 0 THEN 1 ELSE 0 END AS unpriced, input_tokens, output_tokens,
           cache_read_tokens, cache_write_tokens,
           CAST(ROUND(cost_usd * 1e9) AS INTEGER) AS cost_nanos
    FROM runs WHERE phase = 'ended'
    UNION ALL
    SELECT session, agent, model, tenant, runs, tool_calls, unpriced, input_tokens, output_tokens,
           cache_read_tokens, cache_write_tokens, cost_nanos
    FROM deleted_usage;
