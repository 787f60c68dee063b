package schedule

import (
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// Action is what an audit entry tells of.
type Action string

// The actions of the audit log.
const (
	Claimed    Action = "claimed"     // a worker has taken the slot
	Begun      Action = "begun"       // its execution begins, and is not to be repeated
	Finished   Action = "done"        // its execution succeeded
	Retried    Action = "retry"       // its execution failed and is tried again
	GaveUp     Action = "failed"      // its execution failed for the last time
	Doubted    Action = "unknown"     // nobody knows whether it was executed
	Lost       Action = "lost"        // the worker was not heard of again
	Released   Action = "released"    // the worker stopped before it started
	Confirmed  Action = "confirmed"   // the owner has started it
	Withdrawn  Action = "cancelled"   // it was taken back
	Requeued   Action = "requeued"    // it had failed and is tried again
	HandedOver Action = "handed-over" // something else runs it from here on
	Reclaimed  Action = "reclaimed"   // nobody had started it
	Purged     Action = "purged"      // it was reclaimed, and its event is assigned again
	Changed    Action = "plan"        // the plan has a new version
	Pausing    Action = "paused"
	Resuming   Action = "resumed"
)

// Entry is one entry of the audit log. Entries are never changed, and removed
// when they are old; see [Retention].
type Entry struct {
	ID        int64     `json:"id"`
	Time      time.Time `json:"time"`
	Plan      string    `json:"plan"`
	Event     string    `json:"event,omitempty"`
	Action    Action    `json:"action"`
	Attempt   int       `json:"attempt,omitempty"`
	Fence     int64     `json:"fence,omitempty"`
	Worker    string    `json:"worker,omitempty"`
	Scheduled time.Time `json:"scheduled,omitzero"`
	Granted   time.Time `json:"granted,omitzero"` // when the limit let it start
	Started   time.Time `json:"started,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`
	Detail    string    `json:"detail,omitempty"`
}

// AuditQuery chooses entries, the newest first.
type AuditQuery struct {
	Event  string `json:"event,omitempty"` // of this event, or
	Plan   string `json:"plan,omitempty"`  // of this plan
	Before int64  `json:"before,omitempty"`
	Max    int    `json:"max,omitempty"` // 1 to 1000; 0 means 100
}

const (
	defaultPage = 100
	maxPage     = 1000
	maxDetail   = 2000
)

func page(field string, n int) (int, error) {
	if n == 0 {
		return defaultPage, nil
	}
	if n < 1 || n > maxPage {
		return 0, badinput.Field(field, n, "must be 1 to 1000, or 0 for 100")
	}
	return n, nil
}
