-- To list slots that have failed.
CREATE INDEX slot_failed ON slot (plan, at) WHERE state = 3;
