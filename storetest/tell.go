package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
)

// tell writes a decision as a line:
//
//	yes: took 5, 15 left, full in 500ms
//	no: 0 left, retry in 1s, full in 20s
//	no: took 1, 9 left, full in 1s | 0 left, never, full in 2s
//	yes: took -5 of which 2 back, 20 left
//	no: 20 left, 12 free, retry in 1s, for what is held, full in 2s
//	again yes: took 5, 15 left, full in 500ms
//
// There is one part for each demand. What is 0 and goes without saying is
// left out.
func tell(d *sluice.Decision, err error) string {
	if err != nil {
		return tellError(err)
	}
	var b strings.Builder
	if d.Repeated {
		b.WriteString("again ")
	}
	if d.Allowed {
		b.WriteString("yes")
	} else {
		b.WriteString("no")
	}
	for i := range d.Results {
		r := &d.Results[i]
		b.WriteString([]string{":", " |"}[min(i, 1)])
		if r.Consumed.Thousandths() != 0 {
			fmt.Fprintf(&b, " took %s", r.Consumed)
			if r.Consumed.Thousandths() < 0 && r.Returned.Thousandths() != -r.Consumed.Thousandths() {
				fmt.Fprintf(&b, " of which %s back", r.Returned)
			}
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s left", r.Remaining)
		if r.Free != r.Remaining {
			fmt.Fprintf(&b, ", %s free", r.Free)
		}
		switch {
		case r.RetryAfter == sluice.Never:
			b.WriteString(", never")
		case r.RetryAfter != r.LatestAfter:
			fmt.Fprintf(&b, ", retry in %s, in %s at the latest", r.RetryAfter, r.LatestAfter)
		case r.RetryAfter != 0:
			fmt.Fprintf(&b, ", retry in %s", r.RetryAfter)
		case !r.Fits:
			b.WriteString(", does not fit")
		}
		if r.Held {
			b.WriteString(", for what is held")
		}
		if r.ResetAfter != 0 {
			fmt.Fprintf(&b, ", full in %s", r.ResetAfter)
		}
	}
	return b.String()
}

func tellError(err error) string {
	for _, known := range []error{
		sluice.ErrLeaseClosed, sluice.ErrRequestMismatch, sluice.ErrClosed,
		sluice.ErrUnknown, sluice.ErrUnavailable, errors.ErrUnsupported,
	} {
		if errors.Is(err, known) {
			return "error: " + known.Error()
		}
	}
	return "error"
}

// tellGrant writes what a hold got:
//
//	held 10 for 5s, 20 left, 10 free
//	nothing, 3 left, 3 free, retry in 200ms, recalled
func tellGrant(g *sluice.Grant) string {
	if g.Amount.Thousandths() != 0 {
		return fmt.Sprintf("held %s for %s, %s left, %s free", g.Amount, g.Expires.Sub(g.Now), g.Remaining, g.Free)
	}
	s := fmt.Sprintf("nothing, %s left, %s free", g.Remaining, g.Free)
	if g.RetryIn == sluice.Never {
		s += ", never"
	} else {
		s += fmt.Sprintf(", retry in %s", g.RetryIn)
	}
	if g.Recalled {
		s += ", recalled"
	}
	if g.Held {
		s += ", for what is held"
	}
	return s
}

// tellPage writes buckets in order of their names:
//
//	a 10/s: 5 left, 3 held, 12 consumed, full in 1s; b ...
func tellPage(p *sluice.Page) string {
	var lines []string
	for i := range p.Buckets {
		b := &p.Buckets[i]
		line := fmt.Sprintf("%s %s: %s left", b.Key.Limit, b.Limit, b.Remaining)
		if b.Held.Thousandths() != 0 {
			line += fmt.Sprintf(", %s held", b.Held)
		}
		if b.Tickets != 0 {
			line += fmt.Sprintf(", %d in line", b.Tickets)
		}
		lines = append(lines, fmt.Sprintf("%s, %s consumed, full in %s", line, b.Consumed, b.Reset))
	}
	if p.Next != "" {
		lines = append(lines, "and more")
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
