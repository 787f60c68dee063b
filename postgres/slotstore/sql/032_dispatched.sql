-- Whether workers claim slots of a plan, or once did.
ALTER TABLE sluice.slot_plan ADD COLUMN dispatched boolean NOT NULL DEFAULT false;

UPDATE sluice.slot_plan p SET dispatched = true
WHERE EXISTS (SELECT FROM sluice.slot_audit a WHERE a.plan = p.id AND a.action = 'claimed');
