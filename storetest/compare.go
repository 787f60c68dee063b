package storetest

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice"
)

// outcome is what came of a move.
type outcome struct {
	decision *sluice.Decision
	grants   []sluice.Grant
	err      error
}

// differs says in what o is not as it should be.
func (o *outcome) differs(want *outcome, c *clock) error {
	if tellErr(o.err) != tellErr(want.err) {
		return fmt.Errorf("got error %v, want %v", o.err, want.err)
	}
	if want.err != nil {
		return nil
	}
	if want.decision != nil {
		if err := sameDecision(o.decision, want.decision); err != nil {
			return fmt.Errorf("%w\n got %s\nwant %s", err, tell(o.decision, nil), tell(want.decision, nil))
		}
		// A store may keep its own time while the clock is behind.
		if !want.decision.Repeated && !c.behind() {
			return expect("decision.Time", o.decision.Time.UnixMicro(), c.micros.Load())
		}
	}
	for i := range want.grants {
		got, want := o.grants[i], want.grants[i]
		if got.Amount.Thousandths() == 0 {
			got.Expires = want.Expires
		}
		if !got.Expires.Equal(want.Expires) || !got.Now.Equal(want.Now) || tellGrant(&got) != tellGrant(&want) ||
			got.RetryIn != want.RetryIn || got.Recalled != want.Recalled {
			return fmt.Errorf("grant %d:\n got %+v\nwant %+v", i, got, want)
		}
	}
	return nil
}

func tellErr(err error) string {
	if err == nil {
		return ""
	}
	return tellError(err)
}

// sameDecision compares everything but the time.
func sameDecision(got, want *sluice.Decision) error {
	err := errors.Join(
		expect("decision.Allowed", got.Allowed, want.Allowed),
		expect("decision.Granted", got.Granted.Thousandths(), want.Granted.Thousandths()),
		expect("decision.RetryAfter", got.RetryAfter, want.RetryAfter),
		expect("decision.Decider", got.Decider, want.Decider),
		expect("decision.Source", got.Source, want.Source),
		expect("decision.Repeated", got.Repeated, want.Repeated),
		expect("decision.ID", got.ID, want.ID),
		expect("decision.Taken", got.Taken.UnixMicro(), want.Taken.UnixMicro()),
		expect("len(decision.Demands)", len(got.Demands), len(want.Demands)),
		expect("len(decision.Results)", len(got.Results), len(want.Results)),
	)
	if err != nil {
		return err
	}
	for i := range want.Demands {
		if got.Demands[i].Key != want.Demands[i].Key || got.Demands[i].Limit != want.Demands[i].Limit || got.Demands[i].Cost != want.Demands[i].Cost {
			return fmt.Errorf("decision.Demands[%d]: got %s %s cost %s, want %s %s cost %s", i,
				got.Demands[i].Key, got.Demands[i].Limit, got.Demands[i].Cost, want.Demands[i].Key, want.Demands[i].Limit, want.Demands[i].Cost)
		}
		if got.Results[i] != want.Results[i] {
			return fmt.Errorf("decision.Results[%d]: got %+v, want %+v", i, got.Results[i], want.Results[i])
		}
	}
	return nil
}

// compareLists compares all buckets.
func (p *player) compareLists() error {
	size := 100
	if p.chance(20) {
		size = 1 + p.IntN(3)
	}
	got, err := p.listAll(p.limiter, size)
	if err != nil {
		return err
	}
	want, err := p.listAll(p.modelLimiter, 100)
	if err != nil {
		return err
	}
	for k, w := range want {
		g, ok := got[k]
		if !ok {
			return fmt.Errorf("list: %s is not there, want %+v", keyName(k), w)
		}
		if g.LastTaken.After(p.clock.now()) {
			return fmt.Errorf("list: %s: last taken at %s, after now", keyName(k), g.LastTaken)
		}
		g.LastTaken = w.LastTaken
		if g != w {
			return fmt.Errorf("list: %s:\n got %+v\nwant %+v", keyName(k), g, w)
		}
	}
	return expect("number of buckets listed", len(got), len(want))
}

// listAll goes through all pages.
func (s *stage) listAll(l *sluice.Limiter, size int) (map[sluice.Key]sluice.Bucket, error) {
	all := map[sluice.Key]sluice.Bucket{}
	q := sluice.Query{Namespace: s.namespace, Max: size}
	for range 1000 {
		page, err := l.List(s.tb.Context(), q)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		if len(page.Buckets) > size {
			return nil, fmt.Errorf("list: %d buckets on a page of %d", len(page.Buckets), size)
		}
		for _, b := range page.Buckets {
			if _, ok := all[b.Key]; ok {
				return nil, fmt.Errorf("list: %s is there twice", b.Key)
			}
			all[b.Key] = b
		}
		if page.Next == "" {
			return all, nil
		}
		q.Cursor = page.Next
	}
	return nil, errors.New("list: a thousand pages and no end")
}
