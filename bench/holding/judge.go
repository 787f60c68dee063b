package holding

import (
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storetest"
)

// judgement is what the histories of the watched buckets amount to.
type judgement struct {
	buckets    int // that let something pass
	admissions int
	over       int    // buckets with an interval over the bound
	first      string // the first such interval

	// Of the first rule's buckets that were asked for at least twice what may
	// pass. What the others let pass depends on it.
	passed, mayPass int64
	saturated       int
}

// share is which part of what may pass did.
func (j *judgement) share() float64 { return float64(j.passed) / float64(max(j.mayPass, 1)) }

// judge puts the histories of all processes together and checks each bucket
// by itself.
func judge(s *scenario, sample []watched, accounts []account, d time.Duration) (judgement, error) {
	histories, asked := make([]storetest.History, len(sample)), make([]int64, len(sample))
	for i := range accounts {
		for _, a := range accounts[i].Admissions {
			histories[a.Bucket].Add(int64(a.Call), int64(a.Return), sluice.Token)
		}
		for b, n := range accounts[i].Watched {
			asked[b] += int64(n)
		}
	}
	var j judgement
	for b, w := range sample {
		h, l := &histories[b], s.rules[w.rule].limit
		if may := allowance(l, d); w.rule == 0 && asked[b] >= 2*may {
			j.saturated++
			j.passed += int64(len(h.Events))
			j.mayPass += may
		}
		if len(h.Events) == 0 {
			continue
		}
		j.buckets++
		j.admissions += len(h.Events)
		r, err := h.Report(l)
		if err != nil {
			return j, err
		}
		if err := r.Err(); err != nil {
			if j.over++; j.over == 1 {
				j.first = s.rules[w.rule].name + " " + w.entity + ": " + err.Error()
			}
		}
	}
	return j, nil
}
