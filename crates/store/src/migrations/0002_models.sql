-- Its place among the questions to its model, while it waits for the provider.
ALTER TABLE runs ADD COLUMN wait_position INTEGER;
-- What its ended descendants used. Kept here, so that it outlives their records.
ALTER TABLE runs ADD COLUMN children_input_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_output_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_cache_read_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_cache_write_tokens INTEGER;
ALTER TABLE runs ADD COLUMN children_cost_usd REAL;
