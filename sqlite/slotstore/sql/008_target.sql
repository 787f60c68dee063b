-- The HTTP call that servers make for each event of a plan, in JSON.
ALTER TABLE slot_version ADD COLUMN target TEXT;

-- Set from just before the work begins until its end is noted, if the work is not
-- to be repeated: until when it may be under way. The claim does not run out then,
-- so whoever knows nothing of this column leaves the slot alone.
ALTER TABLE slot ADD COLUMN sent INTEGER;
CREATE INDEX slot_unknown ON slot (plan, at) WHERE sent IS NOT NULL;
