-- To list slots that have failed.
CREATE INDEX slot_failed ON sluice.slot (plan, at) WHERE state = 3;
