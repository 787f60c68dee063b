package idempotency

import "time"

// Decide is what becomes of a claim that finds a record (nil for none) at a
// time. It is the reference: every store decides the same, in its own words.
//
// If the verdict is Claimed or TakenOver, next is the record to write. If it is
// Busy and next is not nil, the store's clock was set back, so that the claim
// would last longer than it was given for; next has it end in time.
func Decide(found *Record, c *Claim, now time.Time) (v Verdict, next *Record) {
	switch {
	case found == nil || !now.Before(found.Expires):
		return Claimed, begin(c, now, 1)
	case found.Fingerprint != c.Fingerprint:
		return Mismatch, nil
	case found.State == Done:
		return Finished, nil
	case found.State == Running && found.Token == c.Token:
		return Claimed, found // the same claim, sent again
	case found.State == Running && now.Before(found.ClaimEnds):
		if latest := now.Add(found.Life); latest.Before(found.ClaimEnds) {
			clamped := *found
			clamped.ClaimEnds = latest
			return Busy, &clamped
		}
		return Busy, nil
	case found.State == Running && !c.TakeOver:
		return Unknown, nil
	}
	return TakenOver, begin(c, now, found.Attempts+1)
}

func begin(c *Claim, now time.Time, attempt int64) *Record {
	return &Record{
		Scope: c.Scope, Fingerprint: c.Fingerprint, Token: c.Token, Attempts: attempt,
		Started: now, Life: c.Life, ClaimEnds: now.Add(c.Life), Expires: now.Add(c.TTL),
	}
}
