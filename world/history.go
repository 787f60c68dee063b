package world

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// history is what happened, line by line, if it is kept.
type history struct {
	keep  bool
	mu    sync.Mutex
	lines []line
}

type line struct {
	at   time.Duration
	who  string
	text string
}

func (h *history) add(at time.Duration, who, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line{at, who, text})
}

// sorted is the history in an order that does not depend on which of two that
// do something at the same instant was first to write it down.
func (h *history) sorted() []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who), cmp.Compare(a.text, b.text))
	})
	return h.lines
}

// hash tells histories apart.
func (h *history) hash() string {
	sum := sha256.New()
	for _, l := range h.sorted() {
		fmt.Fprintln(sum, l.at, l.who, l.text) //nolint:errcheck // hashing cannot fail
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func (l line) String() string {
	return fmt.Sprintf("%14.9f %-9s %s", l.at.Seconds(), l.who, l.text)
}

func (w *World) note(p *port, format string, args ...any) {
	if !w.history.keep {
		return
	}
	who := "world"
	if p != nil {
		who = fmt.Sprintf("node %d.%d", p.slot, p.gen)
	}
	w.history.add(w.elapsed(), who, fmt.Sprintf(format, args...))
}

func (w *World) noteDecision(p *port, e *Effect) {
	if w.history.keep {
		w.note(p, "store: %s %s", e.what(), answer(&e.Decision, e.Err))
	}
}

func (w *World) noteCall(t *Told) {
	if w.history.keep {
		w.note(t.Node.port, "caller %d.%d asks: %s", t.Caller>>16-1, t.Caller&0xffff, t.what())
	}
}

func (w *World) noteTold(t *Told) {
	if w.history.keep && t.Lost {
		w.note(t.Node.port, "caller %d.%d is never told", t.Caller>>16-1, t.Caller&0xffff)
	} else if w.history.keep {
		w.note(t.Node.port, "caller %d.%d is told: %s", t.Caller>>16-1, t.Caller&0xffff, answer(&t.Decision, t.Err))
	}
}

func (e *Effect) what() string { return asked(e.Take, e.Changes, e.Settled) }

func (t *Told) what() string { return t.Op.Kind.String() + " " + asked(t.Take, t.Changes, t.Settled) }

func asked(take *sluice.Take, changes []sluice.Demand, settled *sluice.Settlement) string {
	switch {
	case take != nil:
		s := demands(take.Demands)
		if take.ID != "" {
			s += " id " + take.ID
		}
		if take.Ticket.ID != (sluice.HoldID{}) {
			s += fmt.Sprintf(" ticket %d.%d %s", take.Ticket.ID.Node, take.Ticket.ID.Seq, take.Ticket.Rank)
		}
		return s
	case settled != nil:
		return fmt.Sprintf("%s %s %v", settled.Action, settled.ID, settled.Costs)
	}
	return demands(changes)
}

func demands(all []sluice.Demand) string {
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, "[%s of %s %s]", all[i].Charge(), all[i].Key, all[i].Limit)
	}
	return b.String()
}

func answer(d *sluice.Decision, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "allowed %v by %s, retry %s, repeated %v:", d.Allowed, d.Source, d.RetryAfter, d.Repeated)
	for _, r := range d.Results {
		fmt.Fprintf(&b, " [fits %v consumed %s returned %s remaining %s free %s retry %s reset %s held %v unknown %v]",
			r.Fits, r.Consumed, r.Returned, r.Remaining, r.Free, r.RetryAfter, r.ResetAfter, r.Held, r.Unknown)
	}
	return b.String()
}
