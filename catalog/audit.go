package catalog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// Event is one change in the audit log.
type Event struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`

	// Subject is what was changed: the id of an entity, $SYSTEM, or
	// $RESOURCE:, $TIER: or $NAMESPACE: with a name, or $ERASED: with a hash.
	Subject string `json:"subject"`

	Action string `json:"action"` // entity.create, limits.set, key.revoke, …
	By

	// Before and After are the thing as it was and as it is; empty if there
	// was or is none. No secret is among them.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// eventID sorts by time, then by place in the batch, and is unique.
func eventID(at time.Time, n int) string {
	return fmt.Sprintf("%016x%04x%08x", at.UnixMicro(), n, rand.Uint32())
}

// eventFrom is below the ids of all events at and after that time, and above
// those of all before it.
func eventFrom(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf("%016x", max(at.UnixMicro(), 0))
}

// AuditQuery selects events: of one subject or of all, in a time or always.
type AuditQuery struct {
	Subject  string
	From, To time.Time // From <= time < To; zero leaves an end open
	Oldest   bool      // oldest first; the default is newest first
	Cursor   string
	Max      int // a page: 1 to 1000; 0 means 100
}

// AuditPage is one page of events.
type AuditPage struct {
	Events []Event `json:"events"`
	Next   string  `json:"next,omitempty"`
}

// Audit lists what was changed in a namespace. Of a subject that was erased
// there is the event that says so. The root namespace "" has the
// events about namespaces themselves.
func (c *Catalog) Audit(ctx context.Context, namespace string, q AuditQuery) (AuditPage, error) {
	if err := pageSize(&q.Max); err != nil {
		return AuditPage{}, err
	}
	query := EventQuery{
		Namespace: namespace, Subject: q.Subject, From: eventFrom(q.From), To: eventFrom(q.To),
		Newest: !q.Oldest, Cursor: q.Cursor, Max: q.Max,
	}
	records, err := c.store.Events(ctx, query)
	if err == nil && len(records.Events) == 0 && q.Subject != "" && q.Subject[0] != '$' {
		hash, err := c.erasedHash(ctx, namespace, q.Subject)
		if err != nil {
			return AuditPage{}, err
		}
		query.Subject = erasedSubject + hash
		if records, err = c.store.Events(ctx, query); err != nil {
			return AuditPage{}, err
		}
	}
	page := AuditPage{Next: records.Next}
	for _, r := range records.Events {
		var e Event
		if err := json.Unmarshal(r.Data, &e); err != nil {
			return page, fmt.Errorf("event %s: %w", r.ID, err)
		}
		page.Events = append(page.Events, e)
	}
	return page, err
}

// settled is how old events must be to be archived or pruned, so that none
// is still being written, by a node whose clock is behind, too.
const settled = time.Minute

func (c *Catalog) settled(before time.Time) error {
	if before.IsZero() || before.After(c.now().Add(-settled)) {
		return badinput.Field("before", before.Format(time.RFC3339), "must be a minute ago at least")
	}
	return nil
}

// Archive writes the events of a namespace before a time, oldest first, as
// JSON lines compressed with gzip, and answers how many. They stay stored
// until [Editor.PruneArchived], which is to be called with the same time once
// the archive is safe.
func (c *Catalog) Archive(ctx context.Context, namespace string, before time.Time, w io.Writer) (n int, err error) {
	if err := c.settled(before); err != nil {
		return 0, err
	}
	zip := gzip.NewWriter(w)
	lines := bufio.NewWriter(zip)
	var line bytes.Buffer
	for q := (EventQuery{Namespace: namespace, To: eventFrom(before), Max: 1000}); ; {
		page, err := c.store.Events(ctx, q)
		if err != nil {
			return n, err
		}
		for _, e := range page.Events {
			line.Reset()
			if err := json.Compact(&line, e.Data); err != nil {
				return n, fmt.Errorf("event %s: %w", e.ID, err)
			}
			line.WriteByte('\n')
			lines.Write(line.Bytes()) //nolint:errcheck // Flush reports it
			n++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return n, errors.Join(lines.Flush(), zip.Close())
		}
	}
}

// PruneArchived removes the events of the editor's namespace before a time, if
// they are exactly as many as [Catalog.Archive] has written with that time.
// Otherwise it removes nothing and returns an error that wraps [ErrConflict]:
// somebody else has archived them, or an event was added by a node whose clock
// is far behind.
func (e *Editor) PruneArchived(ctx context.Context, before time.Time, archived int) error {
	if err := e.catalog.settled(before); err != nil {
		return err
	}
	n := 0
	for q := (EventQuery{Namespace: e.namespace, To: eventFrom(before), Max: 1000}); ; {
		page, err := e.catalog.store.Events(ctx, q)
		if err != nil {
			return err
		}
		n += len(page.Events)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if n != archived {
		return fmt.Errorf("%d events are stored and %d were archived, so nothing was removed: archive them again: %w", n, archived, ErrConflict)
	}
	_, err := e.PruneAudit(ctx, before)
	return err
}

// PruneAudit removes the events of the editor's namespace before a time, and
// says so in one new event. It answers how many were removed.
func (e *Editor) PruneAudit(ctx context.Context, before time.Time) (int, error) {
	if err := e.catalog.settled(before); err != nil {
		return 0, err
	}
	_, err := e.attempt(ctx, func(b *build) error {
		return b.event("audit.prune", SystemSubject, nil, map[string]time.Time{"before": before.UTC()})
	}, nil)
	if err != nil {
		return 0, err
	}
	return e.catalog.purge(ctx, Purge{Target: PurgeEvents, Namespace: e.namespace, BeforeID: eventFrom(before)})
}
