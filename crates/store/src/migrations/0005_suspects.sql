-- Runs that a process died with.
CREATE INDEX runs_suspected ON runs (queue_key, run_id) WHERE phase = 'queued' AND deaths > 0;
-- The fourth version filled it for first runs only. A damaged entry tells nothing.
UPDATE runs SET workspace = (SELECT json_extract(body, '$.spec.workspace') FROM journal
                             WHERE journal.run_id = runs.run_id AND seq = 1 AND json_valid(body))
    WHERE workspace IS NULL;
