package bucket

// viewTokens refills a token bucket up to now. Holds that have expired by
// then count as spent at the moment they expired: their node may have spent
// them until just before.
func (p *Spec) viewTokens(s *State, now int64) View {
	v := View{Now: max(now, s.Time), Used: s.Used, Rem: s.Rem, Time: s.Time, capacity: p.Capacity}
	if s.Ext != nil {
		for i := range s.Ext.Holds { // in order of expiry
			h := &s.Ext.Holds[i]
			if h.Expires > v.Now {
				v.Held += h.Amount
				continue
			}
			p.refill(&v, max(h.Expires, v.Time))
			v.Used += h.Amount
		}
	}
	p.refill(&v, v.Now)
	return v
}

// refill repays what v has used for the time from v.Time to t.
func (p *Spec) refill(v *View, t int64) {
	elapsed := t - v.Time
	v.Time = t
	if v.Used == 0 {
		v.Rem = 0
		return
	}
	periods, rest := elapsed/p.period, elapsed%p.period
	if periods > v.Used/p.amount { // repaid long ago; also keeps the product in range
		v.Used, v.Rem = 0, 0
		return
	}
	parts := rest*p.amount + v.Rem
	v.Used -= periods*p.amount + parts/p.period
	v.Rem = parts % p.period
	if v.Used <= 0 {
		v.Used, v.Rem = 0, 0
	}
}

// repayIn is the least time in which n of v's use is repaid.
func (p *Spec) repayIn(v *View, n int64) int64 {
	if n <= 0 {
		return 0
	}
	whole, rest := n/p.amount, n%p.amount
	if whole > Forever/p.period {
		return Forever
	}
	// ceil((rest×period - rem) / amount), which is negative only for rest 0
	parts := rest*p.period - v.Rem
	if parts > 0 {
		return whole*p.period + (parts+p.amount-1)/p.amount
	}
	return whole*p.period - (-parts)/p.amount
}

// untilTokens follows the bucket through the expiry of its holds, each of
// which turns from held to used, until used and held come down to target.
func (p *Spec) untilTokens(s *State, v View, target int64) int64 {
	start := v.Now
	for i := 0; v.Held > 0; i++ {
		h := &s.Ext.Holds[i]
		if h.Expires <= start {
			continue
		}
		if excess := v.Used + v.Held - target; excess <= v.Used {
			if in := p.repayIn(&v, excess); v.Now+in <= h.Expires {
				return v.Now + in - start
			}
		}
		v.Now = h.Expires
		p.refill(&v, v.Now)
		v.Used += h.Amount
		v.Held -= h.Amount
	}
	return v.Now + p.repayIn(&v, v.Used-target) - start
}
