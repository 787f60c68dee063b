package limitstore

import "github.com/sluice-go/sluice"

// merged is a decision put together from parts.
type merged struct {
	decision sluice.Decision
	refused  bool
	doubt    error // that too few replicas have acknowledged a part
	repeated int
	parts    int
	amount   int64 // of a take up to an amount: the least that a part would grant
}

func newMerged(t *sluice.Take) *merged {
	return &merged{amount: sluice.MaxThousandths, decision: sluice.Decision{
		Allowed: true, Source: sluice.FromStore, ID: t.ID, Demands: t.Demands, Results: make([]sluice.Result, len(t.Demands)),
	}}
}

func (m *merged) add(part *sluice.Decision, which []int) {
	d := &m.decision
	d.Allowed = d.Allowed && part.Allowed
	if part.Time.After(d.Time) {
		d.Time = part.Time
	}
	m.parts++
	if part.Repeated {
		m.repeated++
	}
	for n, i := range which {
		d.Results[i] = part.Results[n]
	}
}

// repeat says whether an earlier take got this answer, whatever the parts say.
func (m *merged) repeat(repeated bool) {
	m.repeated = 0
	if repeated {
		m.repeated = m.parts
	}
}

// fill makes d what the parts amount to. It is a repetition if all were; what
// nodes hold is not known of one.
func (m *merged) fill(d *sluice.Decision) {
	m.decision.Repeated = m.repeated == m.parts
	for i := range m.decision.Results {
		if r := &m.decision.Results[i]; m.decision.Repeated {
			r.Free = r.Remaining
		}
	}
	m.decision.Results = append(d.Results[:0], m.decision.Results...)
	*d = m.decision
	d.Conclude()
}
