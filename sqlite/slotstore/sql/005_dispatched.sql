-- Whether workers claim slots of a plan, or once did.
ALTER TABLE slot_plan ADD COLUMN dispatched INTEGER NOT NULL DEFAULT 0;

UPDATE slot_plan SET dispatched = 1
WHERE EXISTS (SELECT 1 FROM slot_audit a WHERE a.plan = slot_plan.id AND a.action = 'claimed');
