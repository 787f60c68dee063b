-- Callers that wait leave tickets: see sluice.Ticket. The functions of versions
-- 2 to 10 know nothing of them, and stay for older nodes in a schema that has
-- them; a new schema has only those that follow.

-- Five numbers each: node, sequence, rank, cost, expiry; in order of rank.
ALTER TABLE sluice.bucket ADD COLUMN tickets bigint[];
