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
	v.Used, v.Rem = p.Refill(v.Used, v.Rem, t-v.Time)
	v.Time = t
}

// Refill is what is left of used, and the new remainder, when elapsed
// microseconds have passed. It is the core of a token bucket, for stores that
// cannot afford a View.
func (p *Spec) Refill(used, rem, elapsed int64) (int64, int64) {
	if used == 0 {
		return 0, 0
	}
	if elapsed >= p.period {
		periods := elapsed / p.period
		if periods > used || p.amount > 1 && periods > used/p.amount { // repaid long ago; also keeps the product in range
			return 0, 0
		}
		used -= periods * p.amount
		elapsed -= periods * p.period
	}
	rem += elapsed * p.amount
	if rem >= p.period {
		used -= rem / p.period
		rem %= p.period
	}
	if used <= 0 {
		return 0, 0
	}
	return used, rem
}

// RepayIn is the least time in which n is repaid if the remainder is rem.
func (p *Spec) RepayIn(rem, n int64) int64 {
	if n <= 0 {
		return 0
	}
	if p.amount == 1 { // as it is for most limits that people choose
		if n > p.forever {
			return Forever
		}
		return n*p.period - rem
	}
	whole, rest := n/p.amount, n%p.amount
	if whole > p.forever {
		return Forever
	}
	// ceil((rest×period - rem) / amount), which is negative only for rest 0
	parts := rest*p.period - rem
	if parts > 0 {
		return min(whole*p.period+(parts+p.amount-1)/p.amount, Forever)
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
			if in := p.RepayIn(v.Rem, excess); v.Now+in <= h.Expires {
				return v.Now + in - start
			}
		}
		v.Now = h.Expires
		p.refill(&v, v.Now)
		v.Used += h.Amount
		v.Held -= h.Amount
	}
	return v.Now + p.RepayIn(v.Rem, v.Used-target) - start
}
