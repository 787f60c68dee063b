package policy

import (
	"github.com/sluice-go/sluice"
)

// Numbers are the limits of a set for somebody: none at all, one, or several
// by name. In a file they are "unlimited", a limit such as 100/minute, or a
// map from names to limits.
type Numbers struct {
	Unlimited bool
	Limits    []NamedLimit
}

// NamedLimit is one limit of a set.
type NamedLimit struct {
	Name  string
	Limit sluice.Limit
}

// costs are what a request costs: as a rule, and in some limits.
type costs struct {
	rule  int64
	named []limitCost
}

type limitCost = sluice.LimitCost

// of is the cost in a limit. One place is one place: a rule for tokens says
// nothing about how many requests are in flight.
func (c *costs) of(name string, algorithm sluice.Algorithm) int64 {
	if c == nil {
		return sluice.Token
	}
	for i := range c.named {
		if c.named[i].Limit == name {
			return c.named[i].Cost.Thousandths()
		}
	}
	if algorithm == sluice.Concurrency {
		return sluice.Token
	}
	return c.rule
}

// Unavailable is what to answer when the store cannot be asked, for reads and
// for writes. In a file it is one word for both, or a map with read and write.
type Unavailable struct {
	Read, Write sluice.OnUnavailable
}

func (u *Unavailable) of(write bool) sluice.OnUnavailable {
	if write {
		return u.Write
	}
	return u.Read
}
