-- Triggers and sums of the store on PostgreSQL, and what only this database needs.

-- The last transaction of each session that changed something: whether it was committed, although
-- its answer was lost.
CREATE TABLE commit_tokens (
    session TEXT PRIMARY KEY,
    token   BIGINT NOT NULL,
    at      TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- Locked by every writing transaction: shared, or exclusively by one that has to run alone because
-- others were in its way.
CREATE TABLE turnstile ();

-- The version of the schema, and the process that owns the store: an advisory lock guards it.
CREATE TABLE store_info (
    id      BIGINT PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL,
    owner   TEXT NOT NULL DEFAULT ''
);
INSERT INTO store_info (id, version) VALUES (1, 1);

-- The feed: which transaction wrote a journal entry, and which process. Entries of transactions before
-- the oldest that is still under way are complete, and are read in the order of the transactions.
ALTER TABLE journal
    ADD COLUMN transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ADD COLUMN origin INT DEFAULT CAST(NULLIF(current_setting('sortie.origin', TRUE), '') AS INT);
CREATE INDEX journal_by_transaction ON journal (transaction);

-- The processes that execute runs. Moments are by the clock of this database. A store in a file has one
-- process only, and so no such table.
CREATE TABLE workers (
    id           TEXT COLLATE "C" PRIMARY KEY,
    command      TEXT NOT NULL,
    -- 1 for the process that receives messages and delivers to sinks.
    is_front     BIGINT NOT NULL,
    host         TEXT NOT NULL,
    pid          BIGINT NOT NULL,
    -- JSON arrays of labels, and of lanes with their limits.
    labels       TEXT NOT NULL,
    lanes        TEXT NOT NULL,
    draining     BIGINT NOT NULL,
    joined_at    BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    lease_until  BIGINT NOT NULL
);

-- SQLite's function: the elements of a JSON array.
CREATE FUNCTION json_each(list TEXT) RETURNS TABLE (value TEXT) LANGUAGE sql IMMUTABLE AS $$
    SELECT json_array_elements_text(CAST(list AS json))
$$;

-- A snapshot is deleted together with any journal of its conversation.
CREATE FUNCTION snapshot_outdated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM snapshots WHERE session = OLD.session AND tenant = COALESCE(OLD.tenant, '');
    RETURN NULL;
END
$$;
CREATE TRIGGER snapshot_outdated AFTER DELETE ON runs
    FOR EACH ROW WHEN (OLD.parent_id IS NULL) EXECUTE FUNCTION snapshot_outdated();
CREATE TRIGGER snapshot_removed AFTER UPDATE OF cleaned_at ON runs
    FOR EACH ROW WHEN (OLD.parent_id IS NULL) EXECUTE FUNCTION snapshot_outdated();

-- Runs for each status and the usage of ended runs. Queries, not tables: rows that every transition
-- changes would make all of them wait for each other.
CREATE VIEW tallies AS
    SELECT COALESCE(tenant, '') AS tenant,
           CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END AS archived,
           status, COUNT(*) AS runs
    FROM runs GROUP BY 1, 2, 3;

CREATE VIEW usage AS
    SELECT session, agent, model, tenant, SUM(runs) AS runs, SUM(tool_calls) AS tool_calls,
           SUM(unpriced) AS unpriced, SUM(input_tokens) AS input_tokens,
           SUM(output_tokens) AS output_tokens, SUM(cache_read_tokens) AS cache_read_tokens,
           SUM(cache_write_tokens) AS cache_write_tokens, SUM(cost_nanos) AS cost_nanos
    FROM ended_usage GROUP BY session, agent, model, tenant;

CREATE VIEW usage_totals AS
    SELECT tenant, SUM(runs) AS runs, SUM(tool_calls) AS tool_calls, SUM(unpriced) AS unpriced,
           SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
           SUM(cache_read_tokens) AS cache_read_tokens,
           SUM(cache_write_tokens) AS cache_write_tokens, SUM(cost_nanos) AS cost_nanos
    FROM usage GROUP BY tenant;
