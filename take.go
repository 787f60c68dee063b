package sluice

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// MaxDemands is how many buckets one take may name.
	MaxDemands = 64
	// MaxID is the longest request id, in bytes.
	MaxID = 128
	// MaxLease is the longest lifetime of a lease or request id.
	MaxLease = 7 * 24 * time.Hour
)

// Demand is what a take wants of one bucket, and how that limit is applied.
type Demand struct {
	Key   Key
	Limit Limit

	// Cost is what is wanted. 0 means one token: a forgotten cost must not
	// switch a limit off. Negative costs are refused.
	Cost Amount

	// Shadow decides and counts but never blocks. A cost that does not fit
	// consumes nothing, as if it had been refused.
	Shadow bool

	// CountRefused consumes the cost even if the take is refused, as Envoy's
	// rate limit service does.
	CountRefused bool

	// Critical demands are always decided by the store itself.
	Critical bool

	// OnUnavailable is what to decide when the store cannot be asked.
	OnUnavailable OnUnavailable

	// Unannounced keeps the limit from callers: they are told when to come back
	// and nothing else about it. It is reported, not used.
	Unannounced bool

	// Level is where the numbers came from; it is reported, not used.
	Level Level
}

// OnUnavailable is the decision when the store cannot be asked.
type OnUnavailable uint8

const (
	// Degrade falls back to local quotas, or denies if the demand is
	// critical. The default.
	Degrade OnUnavailable = iota
	// Deny refuses.
	Deny
	// Allow admits the take, and the decision says so.
	Allow
)

func (o OnUnavailable) String() string {
	return name(o, "degrade", "deny", "allow")
}

// Level is the level that a limit's numbers came from.
type Level uint8

// The levels, from the least specific to the most.
const (
	LevelDefault Level = iota
	LevelSystem
	LevelResource
	LevelTier
	LevelTierResource
	LevelEntity
	LevelEntityResource
	LevelCall
)

func (l Level) String() string {
	return name(l, "default", "system", "resource", "tier", "tier+resource", "entity", "entity+resource", "call")
}

func name[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprint(uint8(v))
}

// Take is one question to a store: may all these demands be consumed now?
// Either all are or none is.
type Take struct {
	Demands []Demand

	// ID, if set, makes the take safe to repeat: as long as the store
	// remembers it (see Keep), a take with the same ID gets the first one's
	// answer. A refusal that consumed nothing is not remembered, and neither
	// is a lease that was released.
	ID string

	// Asked, if set, is what the caller asked for in its own words, where the
	// demands were looked up for it. Takes with one ID are the same if this is,
	// whatever has become of the limits; if it is empty, they are if they want
	// the same of the same buckets.
	Asked string

	// Keep is how long the store remembers ID, and how long a lease lives.
	// 0 means [DefaultKeep] if there is an ID or a lease.
	Keep time.Duration

	// Lease keeps the take adjustable until it is settled or Keep has
	// passed. [Limiter.Acquire] sets it.
	Lease bool

	// Peek decides without consuming or remembering anything. With an ID that
	// the store remembers, it gets the answer that Take would.
	Peek bool

	// UpTo grants as many whole tokens of the cost as are available, at least
	// one. All demands then need the same cost.
	UpTo bool

	// Priority orders waiting callers; see [Limiter.Wait].
	Priority Priority

	// Resolve, if set, gives the take its demands again, in a new slice,
	// before each time a waiting caller asks, every two seconds at least:
	// limits may change meanwhile. Where it leaves none, nothing limits the
	// take any more and it is allowed, without a lease. An error ends the wait.
	Resolve func(context.Context, *Take) error `json:"-"`

	// Ticket is the caller's place in line. [Limiter.Wait] sets it.
	Ticket Ticket

	// Tier is the caller's plan; it chooses degraded quotas and is reported.
	Tier string
}

// DefaultKeep is how long a request id is remembered and a lease lives if
// the take does not say.
const DefaultKeep = time.Minute

// Charge returns the cost of d, or one token if it names none.
func (d *Demand) Charge() Amount {
	if d.Cost.Thousandths() == 0 {
		return Tokens(1)
	}
	return d.Cost
}

// normalize fills in ID and Keep and returns an error if t is not valid. It
// leaves the demands alone, which callers may share. Limits are left to the
// store, which checks each only when it first sees it.
func (t *Take) normalize() error {
	if len(t.Demands) == 0 || len(t.Demands) > MaxDemands {
		return badField("take.demands", len(t.Demands), fmt.Sprintf("must be 1 to %d", MaxDemands))
	}
	simple := t.ID == "" && !t.Lease && !t.UpTo && t.Keep == 0
	for i := range t.Demands {
		d := &t.Demands[i]
		if d.Cost.Thousandths() < 0 || d.Cost.Thousandths() > MaxThousandths || d.Key.long() {
			return t.mistake(i)
		}
		for j := range i {
			if o := &t.Demands[j].Key; !differ(o.Limit, d.Key.Limit) && *o == d.Key {
				return t.mistake(i)
			}
		}
		simple = simple && d.Limit.Algorithm != Concurrency
	}
	if simple {
		return nil
	}
	return t.normalizeOptions()
}

// mistake returns what is wrong with the cost or the key of a demand.
func (t *Take) mistake(i int) error {
	d := &t.Demands[i]
	if d.Cost.Thousandths() < 0 || d.Cost.Thousandths() > MaxThousandths {
		return badField(fmt.Sprintf("take.demands[%d].cost", i), d.Cost, fmt.Sprintf("must be above 0 and at most %s", maxAmount))
	}
	if d.Key.long() {
		return fmt.Errorf("take.demands[%d].%w", i, d.Key.validate())
	}
	same := slices.IndexFunc(t.Demands, func(o Demand) bool { return o.Key == d.Key })
	return badField(fmt.Sprintf("take.demands[%d].key", i), d.Key, fmt.Sprintf("names the same bucket as demands[%d]", same))
}

// differ tells most strings apart without reading all of them.
func differ(a, b string) bool {
	return len(a) != len(b) || len(a) > 0 && a[len(a)-1] != b[len(b)-1]
}

func needsLease(i int) error {
	return badField(fmt.Sprintf("take.demands[%d].limit", i), "concurrency", "needs a lease: use Acquire, so that the place is freed again")
}

func (t *Take) normalizeOptions() error {
	if len(t.ID) > MaxID {
		return badField("take.id", t.ID[:32]+"…", fmt.Sprintf("must be at most %d bytes long", MaxID))
	}
	if t.Keep < 0 || t.Keep > MaxLease {
		return badField("take.keep", t.Keep, fmt.Sprintf("must be between 0 and %s", MaxLease))
	}
	if t.Keep == 0 && (t.ID != "" || t.Lease) {
		t.Keep = DefaultKeep
	}
	if t.Keep != 0 {
		t.Keep = max(t.Keep.Truncate(time.Microsecond), time.Microsecond)
	}
	if t.Lease && t.Peek {
		return badField("take.peek", true, "a peek has no lease")
	}
	if t.Lease && t.ID == "" {
		t.ID = newID()
	}
	for i := range t.Demands {
		d := &t.Demands[i]
		if t.UpTo && d.Charge() != t.Demands[0].Charge() {
			return badField(fmt.Sprintf("take.demands[%d].cost", i), d.Cost, "a take up to an amount needs the same cost in every demand")
		}
		if d.Limit.Algorithm == Concurrency {
			if !t.Lease && !t.Peek {
				return needsLease(i)
			}
			if d.Cost.Thousandths()%Token != 0 {
				return badField(fmt.Sprintf("take.demands[%d].cost", i), d.Cost, "concurrency is counted in whole tokens")
			}
		}
	}
	return nil
}
