-- Whose a run is, where one server serves several.
ALTER TABLE runs ADD COLUMN tenant TEXT;
-- Whether somebody wants it to rest. Never set for one that has ended or is to be cancelled.
ALTER TABLE runs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
-- What became of the changes in its worktree, once somebody has decided.
ALTER TABLE runs ADD COLUMN changes_fate TEXT;
-- The folder it was admitted with.
ALTER TABLE runs ADD COLUMN workspace TEXT;
-- Conversations show it; only those of older stores have to be told. A damaged entry tells nothing.
UPDATE runs SET workspace = (SELECT json_extract(body, '$.spec.workspace') FROM journal
                             WHERE journal.run_id = runs.run_id AND seq = 1 AND json_valid(body))
    WHERE parent_id IS NULL;

-- Runs that rest wait for nobody's slot.
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (lane, queue_key, run_id, parent_id, root_id, tenant)
    WHERE phase = 'queued' AND paused = 0;
CREATE INDEX runs_resting ON runs (deadline_at) WHERE phase = 'queued' AND paused = 1;

-- What people look for.
CREATE INDEX runs_by_agent ON runs (agent, run_id);
CREATE INDEX runs_by_tenant ON runs (tenant, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX roots ON runs (run_id) WHERE parent_id IS NULL;
-- The turns of conversations, with all that is asked of each.
CREATE INDEX turns ON runs (session, tenant, created_at, run_id, lane, parent_id)
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

-- How many runs are in which state, kept by the database itself: everybody asks for these numbers all
-- the time, and to count a hundred thousand runs took 20 ms.
CREATE TABLE tallies (
    -- Empty for runs of nobody.
    tenant   TEXT NOT NULL,
    archived INTEGER NOT NULL,
    status   TEXT NOT NULL,
    runs     INTEGER NOT NULL,
    PRIMARY KEY (tenant, archived, status)
) WITHOUT ROWID;
INSERT INTO tallies (tenant, archived, status, runs)
    SELECT COALESCE(tenant, ''), archived_at IS NOT NULL, status, COUNT(*) FROM runs GROUP BY 1, 2, 3;

CREATE TRIGGER tally_admitted AFTER INSERT ON runs BEGIN
    INSERT INTO tallies (tenant, archived, status, runs)
        VALUES (COALESCE(NEW.tenant, ''), NEW.archived_at IS NOT NULL, NEW.status, 1)
        ON CONFLICT DO UPDATE SET runs = runs + 1;
END;
CREATE TRIGGER tally_changed AFTER UPDATE OF status, archived_at ON runs
WHEN NEW.status <> OLD.status OR (NEW.archived_at IS NULL) <> (OLD.archived_at IS NULL) BEGIN
    UPDATE tallies SET runs = runs - 1
        WHERE tenant = COALESCE(OLD.tenant, '') AND archived = (OLD.archived_at IS NOT NULL)
          AND status = OLD.status;
    INSERT INTO tallies (tenant, archived, status, runs)
        VALUES (COALESCE(NEW.tenant, ''), NEW.archived_at IS NOT NULL, NEW.status, 1)
        ON CONFLICT DO UPDATE SET runs = runs + 1;
END;
CREATE TRIGGER tally_removed AFTER DELETE ON runs BEGIN
    UPDATE tallies SET runs = runs - 1
        WHERE tenant = COALESCE(OLD.tenant, '') AND archived = (OLD.archived_at IS NOT NULL)
          AND status = OLD.status;
END;

-- Pages of what runs ask: the open ones, oldest first; and all, newest first.
CREATE INDEX requests_open_by_time ON requests (asked_at, id) WHERE state = 'open';
CREATE INDEX requests_by_time ON requests (asked_at, id) WHERE state <> 'closed';
