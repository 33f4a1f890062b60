-- Whose a run is, where one server serves several.
ALTER TABLE runs ADD COLUMN tenant TEXT;
-- Whether somebody wants it to rest. Never set for one that has ended or is to be cancelled.
ALTER TABLE runs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
-- What became of the changes in its worktree, once somebody has decided.
ALTER TABLE runs ADD COLUMN changes_fate TEXT;
-- The folder it was admitted with.
ALTER TABLE runs ADD COLUMN workspace TEXT;
-- Conversations show it; only those of older stores have to be told.
UPDATE runs SET workspace = (SELECT json_extract(body, '$.spec.workspace') FROM journal
                             WHERE journal.run_id = runs.run_id AND seq = 1)
    WHERE parent_id IS NULL;

-- Runs that rest wait for nobody's slot.
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (lane, queue_key, run_id, parent_id, root_id)
    WHERE phase = 'queued' AND paused = 0;
CREATE INDEX runs_resting ON runs (deadline_at) WHERE phase = 'queued' AND paused = 1;

-- What people look for.
CREATE INDEX runs_by_agent ON runs (agent, run_id);
CREATE INDEX runs_by_tenant ON runs (tenant, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX tenants_by_status ON runs (tenant, status)
    WHERE tenant IS NOT NULL AND archived_at IS NULL;
CREATE INDEX roots ON runs (run_id) WHERE parent_id IS NULL;
CREATE INDEX archived_by_status ON runs (status, tenant) WHERE archived_at IS NOT NULL;
-- The turns of conversations.
CREATE INDEX turns ON runs (session, tenant, created_at, run_id)
    WHERE parent_id IS NULL AND lane = 'main';
-- What was used over time. No more columns: they change with every answer, and so would the index.
CREATE INDEX runs_by_creation ON runs (created_at);

-- What persons allowed is allowed to one tenant; without one, to those without.
CREATE TABLE grants_of_tenants (
    tenant  TEXT NOT NULL DEFAULT '',
    session TEXT NOT NULL,
    rule    TEXT NOT NULL,
    by      TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, rule)
);
INSERT INTO grants_of_tenants (session, rule, by, at) SELECT session, rule, by, at FROM grants;
DROP TABLE grants;
ALTER TABLE grants_of_tenants RENAME TO grants;

-- Whose call it was; also in the line itself, under its hash.
ALTER TABLE audit ADD COLUMN tenant TEXT;
CREATE INDEX audit_by_tenant ON audit (tenant, seq) WHERE tenant IS NOT NULL;

-- Requests that take effect once, by the key of their sender.
CREATE TABLE once (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    status      INTEGER,
    body        BLOB
);
CREATE INDEX once_by_age ON once (at);
