package holding

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/bench/report"
)

// results are the standings of each scenario's sides, in the order of its
// setting.
type results map[string][]standing

func (r results) claims(o *Options) []report.Claim {
	ratio := func(s *scenario) float64 { return r[s.name][0].Ratio(&r[s.name][1].Standing) }
	all := []report.Claim{
		report.AtLeast(under.title+": decisions per second over redis_rate's", 20, ratio(&under)),
		report.AtMost(under.title+": calls to Redis per decision", 0.03, r[under.name][0].median((*turn).callsEach)),
		report.AtLeast(many.title+": decisions per second over redis_rate's", 8, ratio(&many)),
		report.AtLeast(overload.title+": decisions per second over redis_rate's", 4, ratio(&overload)),
	}
	for _, s := range []*scenario{&small, &three} {
		share := r[s.name][0].median(func(t *turn) float64 { return 100 * s.passedShare(t, o) })
		all = append(all,
			report.AtLeast(s.title+": percent of what may pass that did", 97, share),
			report.AtLeast(s.title+": decisions per second over those of exact takes", 1, ratio(s)))
	}
	without := r[resting.name][0].median((*turn).p99)
	return append(all,
		r.bound(),
		report.AtMost("p99 of decisions with held tokens: with renewals over without", 2,
			r[renewing.name][0].median((*turn).p99)/without),
		report.AtMost("the same with hot keys drained, whose callers wait for tokens they need", 2,
			r[drained.name][0].median((*turn).p99)/without),
		report.AtMost(fmt.Sprintf("%d processes, %d/s asked of %s: percent refused", fleet, near.pace, near.rules[0].limit), 1,
			r[near.name][0].median(func(t *turn) float64 { return 100 * t.refused() })))
}

// bound is the claim about all histories.
func (r results) bound() report.Claim {
	buckets, over, first := 0, 0, ""
	for _, sc := range scenarios {
		for _, s := range r[sc.name] {
			if s.Name == redisRate {
				continue
			}
			for i := range s.turns {
				j := &s.turns[i].judgement
				buckets, over = buckets+j.buckets, over+j.over
				if first == "" {
					first = j.first
				}
			}
		}
	}
	got := fmt.Sprintf("%d of %d buckets", over, buckets)
	if first != "" {
		got += ": " + first
	}
	return report.Claim{What: "buckets with an interval over the bound", Want: "none", Got: got, Met: over == 0 && buckets > 0}
}

// passedShare is which part of what may pass did, in scenarios that are
// saturated: of all keys, or of the bucket that everybody shares.
func (s *scenario) passedShare(t *turn, o *Options) float64 {
	may := allowance(s.rules[0].limit, t.took)
	if s.rules[0].of == theKey {
		may *= int64(o.keys(s))
	}
	return float64(t.Passed) / float64(may)
}

func (t *turn) callsEach() float64    { return float64(t.calls) / float64(max(t.Asked, 1)) }
func (t *turn) commandsEach() float64 { return float64(t.all) / float64(max(t.Asked, 1)) }
func (t *turn) localShare() float64   { return float64(t.Local) / float64(max(t.Asked, 1)) }
func (t *turn) refused() float64      { return 1 - float64(t.Passed)/float64(max(t.Asked, 1)) }
func (t *turn) p99() float64          { return float64(t.Held.quantile(0.99)) }

func (r results) tables(o *Options) []report.Table {
	speed := report.Table{
		Title:  "Decisions per second",
		Header: []string{"traffic", "limiter", "decisions", "ratio", "decided locally", "calls per decision", "commands, with those in scripts"},
		Note:   "The ratio is that of holding over the other limiter.",
	}
	passed := report.Table{
		Title:  "What passed",
		Header: []string{"traffic", "limiter", "refused", "buckets checked", "over the bound", "saturated", "share of what may pass"},
		Note: `Saturated are the checked buckets that were asked for at least twice what may
pass; the share is theirs. Of several limits only the first counts, that of
everybody, which the others wait for.`,
	}
	latency := report.Table{
		Title:  "Latency",
		Header: []string{"traffic", "limiter", "p50", "p99", "held: p50", "held: p99"},
		Note:   "There are far more callers than cores, so most of the time above the median is spent waiting for a core.",
	}
	for _, sc := range scenarios {
		for i := range r[sc.name] {
			s := &r[sc.name][i]
			ratio := ""
			if i > 0 {
				ratio = fmt.Sprintf("%.2f", r[sc.name][0].Ratio(&s.Standing))
			}
			speed.Add(sc.title, s.Name, report.Count(s.Rate()), ratio, percent(s.median((*turn).localShare)),
				fmt.Sprintf("%.4f", s.median((*turn).callsEach)), fmt.Sprintf("%.4f", s.median((*turn).commandsEach)))
			passed.Add(sc.title, s.Name, percent(s.median((*turn).refused)),
				fmt.Sprint(s.worst(func(t *turn) float64 { return float64(t.buckets) })),
				fmt.Sprint(s.worst(func(t *turn) float64 { return float64(t.over) })),
				fmt.Sprint(s.worst(func(t *turn) float64 { return float64(t.saturated) })),
				percent(s.median(func(t *turn) float64 { return t.share() })))
			latency.Add(sc.title, s.Name,
				s.quantile(0.5, (*turn).everyTake), s.quantile(0.99, (*turn).everyTake),
				s.quantile(0.5, (*turn).heldTake), s.quantile(0.99, (*turn).heldTake))
		}
	}
	return []report.Table{speed, passed, latency}
}

func (t *turn) everyTake() *histogram { return &t.All }
func (t *turn) heldTake() *histogram  { return &t.Held }

func (s *standing) quantile(share float64, of func(*turn) *histogram) string {
	d := time.Duration(s.median(func(t *turn) float64 { return float64(of(t).quantile(share)) }))
	if d == 0 {
		return ""
	}
	if d > 10*time.Microsecond {
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
