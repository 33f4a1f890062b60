-- Triggers and sums of the store on SQLite.

-- A snapshot is deleted together with any journal of its conversation.
CREATE TRIGGER snapshot_outdated AFTER DELETE ON runs WHEN OLD.parent_id IS NULL BEGIN
    DELETE FROM snapshots WHERE session = OLD.session AND tenant = COALESCE(OLD.tenant, '');
END;
CREATE TRIGGER snapshot_removed AFTER UPDATE OF cleaned_at ON runs
WHEN OLD.parent_id IS NULL BEGIN
    DELETE FROM snapshots WHERE session = OLD.session AND tenant = COALESCE(OLD.tenant, '');
END;

-- Runs for each status, maintained by triggers: clients read these numbers all the time, and counting
-- a hundred thousand runs took 20 ms.
CREATE TABLE tallies (
    -- Empty for runs without a tenant.
    tenant   TEXT NOT NULL,
    archived INTEGER NOT NULL,
    status   TEXT NOT NULL,
    runs     INTEGER NOT NULL,
    PRIMARY KEY (tenant, archived, status)
) WITHOUT ROWID;

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

-- The sums of `ended_usage`, maintained by a trigger: clients read them all the time, and adding up the
-- runs cost more with each of them. A deleted run stays in them.
CREATE TABLE usage (
    session            TEXT NOT NULL,
    agent              TEXT NOT NULL,
    model              TEXT NOT NULL,
    -- Empty for runs without a tenant.
    tenant             TEXT NOT NULL,
    runs               INTEGER NOT NULL,
    tool_calls         INTEGER NOT NULL,
    -- Runs with a completion of unknown cost.
    unpriced           INTEGER NOT NULL,
    input_tokens       INTEGER,
    output_tokens      INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    cost_nanos         INTEGER,
    PRIMARY KEY (session, agent, model, tenant)
) WITHOUT ROWID;
CREATE INDEX usage_by_tenant ON usage (tenant, session, agent, model) WHERE tenant <> '';

-- The same for all sessions.
CREATE TABLE usage_totals (
    tenant             TEXT NOT NULL,
    runs               INTEGER NOT NULL,
    tool_calls         INTEGER NOT NULL,
    -- Runs with a completion of unknown cost.
    unpriced           INTEGER NOT NULL,
    input_tokens       INTEGER,
    output_tokens      INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    cost_nanos         INTEGER,
    PRIMARY KEY (tenant)
) WITHOUT ROWID;

CREATE TRIGGER usage_ended AFTER UPDATE OF phase ON runs
WHEN NEW.phase = 'ended' AND OLD.phase <> 'ended' BEGIN
    INSERT INTO usage (session, agent, model, tenant, runs, tool_calls, unpriced, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, cost_nanos)
        VALUES (NEW.session, NEW.agent, NEW.model, COALESCE(NEW.tenant, ''),
            1, NEW.tool_calls, NEW.unpriced > 0, NEW.input_tokens,
            NEW.output_tokens, NEW.cache_read_tokens, NEW.cache_write_tokens,
            CAST(ROUND(NEW.cost_usd * 1e9) AS INTEGER))
        ON CONFLICT DO UPDATE SET
            runs = runs + 1,
            tool_calls = tool_calls + excluded.tool_calls,
            unpriced = unpriced + excluded.unpriced,
            input_tokens = COALESCE(input_tokens + excluded.input_tokens, input_tokens, excluded.input_tokens),
            output_tokens = COALESCE(output_tokens + excluded.output_tokens, output_tokens, excluded.output_tokens),
            cache_read_tokens = COALESCE(cache_read_tokens + excluded.cache_read_tokens, cache_read_tokens, excluded.cache_read_tokens),
            cache_write_tokens = COALESCE(cache_write_tokens + excluded.cache_write_tokens, cache_write_tokens, excluded.cache_write_tokens),
            cost_nanos = COALESCE(cost_nanos + excluded.cost_nanos, cost_nanos, excluded.cost_nanos);
    INSERT INTO usage_totals (tenant, runs, tool_calls, unpriced, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, cost_nanos)
        VALUES (COALESCE(NEW.tenant, ''), 1, NEW.tool_calls, NEW.unpriced > 0, NEW.input_tokens,
            NEW.output_tokens, NEW.cache_read_tokens, NEW.cache_write_tokens,
            CAST(ROUND(NEW.cost_usd * 1e9) AS INTEGER))
        ON CONFLICT DO UPDATE SET
            runs = runs + 1,
            tool_calls = tool_calls + excluded.tool_calls,
            unpriced = unpriced + excluded.unpriced,
            input_tokens = COALESCE(input_tokens + excluded.input_tokens, input_tokens, excluded.input_tokens),
            output_tokens = COALESCE(output_tokens + excluded.output_tokens, output_tokens, excluded.output_tokens),
            cache_read_tokens = COALESCE(cache_read_tokens + excluded.cache_read_tokens, cache_read_tokens, excluded.cache_read_tokens),
            cache_write_tokens = COALESCE(cache_write_tokens + excluded.cache_write_tokens, cache_write_tokens, excluded.cache_write_tokens),
            cost_nanos = COALESCE(cost_nanos + excluded.cost_nanos, cost_nanos, excluded.cost_nanos);
END;
