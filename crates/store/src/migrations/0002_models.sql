-- Its place among the questions to its model, while it waits for the provider.
ALTER TABLE runs ADD COLUMN wait_position INTEGER;
-- Answers whose cost is unknown: a sum with one of them in it is unknown too.
ALTER TABLE runs ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN children_unpriced INTEGER NOT NULL DEFAULT 0;
-- What its ended descendants used. Kept here, so that it outlives their records.
ALTER TABLE runs ADD COLUMN children_input_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_output_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_cache_read_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_cache_write_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_cost_usd REAL;
