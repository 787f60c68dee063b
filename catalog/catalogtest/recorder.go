package catalogtest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// faulty fails calls of AddUsage in turns: before and after it took effect.
type faulty struct {
	catalog.Store
	calls int
}

func (f *faulty) AddUsage(ctx context.Context, b *catalog.UsageBatch) error {
	f.calls++
	switch f.calls % 3 {
	case 1:
		return fmt.Errorf("no connection: %w", sluice.ErrUnavailable)
	case 2:
		if err := f.Store.AddUsage(ctx, b); err != nil {
			return err
		}
		return fmt.Errorf("no answer: %w", sluice.ErrUnknown)
	}
	return f.Store.AddUsage(ctx, b)
}

// checkMadeUpNames has callers make up names. What is stored stays bounded, nothing
// that was used is lost, and those who were there before are told apart.
func checkMadeUpNames(t *testing.T, open Open) {
	d := newDesk(t, open)
	const most, made = 50, 2000
	start := func() *catalog.Recorder {
		r, err := catalog.NewRecorder(catalog.RecorderConfig{Store: d.store, Every: time.Minute, Stored: most, Log: slog.New(slog.DiscardHandler)})
		d.no(err)
		return r
	}
	count := func(r *catalog.Recorder, entity, resource string) {
		r.Consumed(sluice.Key{Namespace: d.namespace, Entity: entity, Resource: resource, Limit: "rpm"}, sluice.Per(1, time.Second), sluice.Consumption{Amount: sluice.Tokens(1), Taken: time.Now(), Take: true})
	}
	first := start()
	count(first, "victim", "chat")
	d.no(first.Close())
	r := start() // another process, which has to find out who is there
	for i := range made {
		count(r, fmt.Sprint("made-up-", i), fmt.Sprint("too-", i))
		if i%500 == 0 {
			count(r, "victim", "chat")
			d.no(r.Flush(d.ctx))
		}
	}
	d.no(r.Flush(d.ctx))
	if s := r.Stats(); s.Other < made-most {
		t.Errorf("%d changes were counted together, want %d at least", s.Other, made-most)
	}
	d.no(r.Close())
	series, total, victim := 0, sluice.Tokens(0), sluice.Tokens(0)
	for q := (catalog.UsedQuery{Max: 1000, Span: catalog.Total}); ; {
		page, err := d.c.UsageSummary(d.ctx, d.namespace, q)
		d.no(err)
		for _, u := range page.Used {
			series++
			total = total.Add(u.Amount)
			if u.Entity == "victim" {
				victim = victim.Add(u.Amount)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if series > most+1 || total != sluice.Tokens(made+5) || victim != sluice.Tokens(5) {
		t.Errorf("%d series with %s in all, %s of them the victim's, want at most %d, %d and 5", series, total, victim, most+1, made+5)
	}
}

func checkRecorder(t *testing.T, open Open) {
	d := newDesk(t, open)
	r, err := catalog.NewRecorder(catalog.RecorderConfig{Store: &faulty{Store: d.store}, Every: time.Minute, Series: 320})
	d.no(err)
	count := func(entity, limit string, n int64) {
		r.Consumed(sluice.Key{Namespace: d.namespace, Entity: entity, Resource: "chat", Limit: limit}, sluice.Per(1, time.Second), sluice.Consumption{Amount: sluice.Thousandths(n), Taken: time.Now(), Take: n > 0})
	}
	const rounds = 5
	for range rounds {
		for range 100 {
			count("alice", "rpm", sluice.Token)
		}
		count("alice", "tpm", 500*sluice.Token)
		count("alice", "tpm", -100*sluice.Token) // the real cost was less
		count("b\xff\x00b", "rpm", sluice.Token)
		r.Consumed(sluice.Key{Namespace: d.namespace, Entity: "alice"}, sluice.Limit{Algorithm: sluice.Concurrency}, sluice.Consumption{Amount: sluice.Tokens(1)})
		for try := 0; ; try++ {
			if err := r.Flush(d.ctx); err == nil {
				break
			} else if try == 5 {
				t.Fatal(err)
			}
		}
	}
	sums := func() (lines []string) {
		page, err := d.c.UsageSummary(d.ctx, d.namespace, catalog.UsedQuery{To: time.Now().Add(time.Hour)})
		d.no(err)
		for _, u := range page.Used {
			lines = append(lines, fmt.Sprintf("%s/%s/%s %s in %d", u.Entity, u.Resource, u.Limit, u.Amount, u.Count))
		}
		return lines
	}
	wantIDs(t, "sums", sums(), "alice/chat/rpm 500 in 500", "alice/chat/tpm 2000 in 5", "b??b/chat/rpm 5 in 5")
	days, err := d.c.Usage(d.ctx, d.namespace, catalog.UsedQuery{Entity: "alice", Span: catalog.Daily})
	d.no(err)
	if len(days.Used) == 0 || days.Used[0].Start.Hour() != 0 {
		t.Errorf("days: %+v", days.Used)
	}
	if s := r.Stats(); s.Failures == 0 || s.Written == 0 {
		t.Errorf("stats %+v", s)
	}
	// Too many at once are counted together, but none is lost.
	for i := range 2000 {
		count(fmt.Sprintf("e%04d", i), "rpm", sluice.Token)
	}
	d.no(r.Close()) // it tries until it works
	var total int64
	var apart int
	for q := (catalog.UsedQuery{Max: 1000, To: time.Now().Add(time.Hour)}); ; {
		page, err := d.c.UsageSummary(d.ctx, d.namespace, q)
		d.no(err)
		for _, u := range page.Used {
			if strings.HasPrefix(u.Entity, "e") {
				apart++
			}
			if u.Limit == "rpm" {
				total += u.Amount.Thousandths()
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if total != 2505*sluice.Token || apart > 320 || apart < 200 {
		t.Errorf("%s in all and %d series kept apart, want 2505 and at most 320", sluice.Thousandths(total), apart)
	}
}
