package idempotency

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// Store keeps records. Each call is atomic and, where the store is elsewhere,
// one round trip. Time is the store's own.
//
// An error says whether anything can have happened: it wraps sluice.ErrUnknown
// if that is not known, and otherwise nothing has.
type Store interface {
	// Claim decides c as [Decide] does, and writes what follows from it.
	Claim(ctx context.Context, c *Claim) (Answer, error)

	// Extend makes a running claim last so long from now; 0 has it lapse at
	// once, as after a crash.
	Extend(ctx context.Context, id ID, token Token, life time.Duration) error

	// Finish ends a claim with a result. Finishing again with the same token
	// and state is no error and changes nothing.
	Finish(ctx context.Context, f *Finish) error

	// Release ends a running claim as if it had never been.
	Release(ctx context.Context, id ID, token Token) error

	// Lookup finds a record, or answers [ErrNotFound].
	Lookup(ctx context.Context, id ID) (Record, error)

	// Forget deletes a record, whatever its state, or answers [ErrNotFound].
	Forget(ctx context.Context, id ID) error

	// ForgetAll deletes up to so many records, whatever their state, of a tenant
	// or a namespace, and answers how many. If there are no more, their
	// figures go too, and it answers fewer than it was asked for. A run that is
	// going on then has nothing to end: as after Forget, its token fits no
	// record, so nothing that it knows is stored any more. What is claimed while
	// ForgetAll goes on may stay.
	ForgetAll(ctx context.Context, whose Whose, most int) (int, error)

	// Note adds to the figures and marks records as replayed. Records that are
	// gone are passed over.
	Note(ctx context.Context, a *Activity) error

	// Stats are the figures that were noted.
	Stats(ctx context.Context, q Query) (Stats, error)

	// Recent finds the records replayed last, the latest first. Their results
	// may be left out.
	Recent(ctx context.Context, q Query) ([]Record, error)

	// Sweep deletes up to so many expired records, and figures of tenants that
	// were idle for [KeepStats]. It answers how many records it was.
	Sweep(ctx context.Context, most int) (int, error)

	Close() error
}

// Claim asks for a key.
type Claim struct {
	Scope       Scope         `json:"scope"`
	Token       Token         `json:"token"` // the claim's own: see [NewToken]
	Fingerprint Fingerprint   `json:"fingerprint"`
	Life        time.Duration `json:"life"` // how long the claim stands unless it is extended
	TTL         time.Duration `json:"ttl"`  // how long the record is kept, finished or not
	TakeOver    bool          `json:"takeOver"`
}

// Verdict is what became of a claim.
type Verdict uint8

const (
	// Claimed is a claim that is held now. The work is to be done.
	Claimed Verdict = iota
	// TakenOver is the same, after an earlier run crashed or failed.
	TakenOver
	// Busy: somebody else is at it.
	Busy
	// Unknown: somebody was at it and crashed, and the claim does not want to
	// take over.
	Unknown
	// Finished: there is a result.
	Finished
	// Mismatch: the key was used for something else.
	Mismatch
)

func (v Verdict) String() string {
	return name(v, verdictNames...)
}

var verdictNames = []string{"claimed", "takenOver", "busy", "unknown", "finished", "mismatch"}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the verdict's name.
func (v *Verdict) UnmarshalText(b []byte) error {
	return parseName(v, "verdict", string(b), verdictNames)
}

// Held reports whether the claim is held now.
func (v Verdict) Held() bool { return v == Claimed || v == TakenOver }

// Answer is the answer to a claim. Record is the one found or made; its result
// is only there if the verdict is Finished.
type Answer struct {
	Verdict Verdict   `json:"verdict"`
	Record  Record    `json:"record"`
	Now     time.Time `json:"now"` // the store's time
}

// State is what a record says of its run.
type State uint8

const (
	// Running: its claim is extended as long as its process lives.
	Running State = iota
	// Done: the result is final.
	Done
	// Failed: there is a result, and whoever claims next may try again.
	Failed
)

func (s State) String() string { return name(s, stateNames...) }

var stateNames = []string{"running", "done", "failed"}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the state's name.
func (s *State) UnmarshalText(b []byte) error { return parseName(s, "state", string(b), stateNames) }

func name[N ~uint8](n N, names ...string) string {
	if int(n) >= len(names) {
		return "unknown"
	}
	return names[n]
}

func parseName[N ~uint8](to *N, field, text string, names []string) error {
	i := slices.Index(names, text)
	if i < 0 {
		return &sluice.FieldError{
			Field: "idempotency." + field, Value: text, Reason: "must be one of " + strings.Join(names, ", "),
		}
	}
	*to = N(i)
	return nil
}

// Record is what is known of a key. Times are the store's.
type Record struct {
	Scope       Scope         `json:"scope"`
	State       State         `json:"state"`
	Crashed     bool          `json:"crashed,omitempty"` // running, but the claim has lapsed
	Fingerprint Fingerprint   `json:"fingerprint"`
	Token       Token         `json:"-"` // who has it may write: not for showing
	Attempts    int64         `json:"attempts"`
	Started     time.Time     `json:"started"` // the latest attempt
	Life        time.Duration `json:"-"`
	ClaimEnds   time.Time     `json:"claimEnds"`
	Finished    time.Time     `json:"finished,omitzero"`
	Expires     time.Time     `json:"expires"`
	Replays     int64         `json:"replays"`
	Replayed    time.Time     `json:"replayed,omitzero"` // the latest replay
	Size        int64         `json:"size"`              // of the result in bytes
	Result      []byte        `json:"-"`                 // see [Response.Encode]
}

// Finish ends a claim.
type Finish struct {
	ID     ID
	Token  Token
	State  State // Done or Failed
	Result []byte
	TTL    time.Duration // from now
}

// Query says whose figures or records are meant.
type Query struct {
	Tenant   string
	Everyone bool // all tenants together
	Max      int  // records: 1 to 1000; 0 means 100
}

// KeepStats is how long the figures of a tenant are kept without any news.
const KeepStats = 30 * 24 * time.Hour

// Activity is what a node has seen since it last told.
type Activity struct {
	Counts  []Count
	Replays []Replayed
}

// Count adds N to a figure, of a tenant or of everyone.
type Count struct {
	Everyone bool
	Tenant   string
	Name     string
	N        int64
}

// Replayed says that a record was replayed N times, and when it last was.
type Replayed struct {
	ID     ID
	Tenant string
	N      int64
	At     time.Time
}
