package world

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind uint8

// What goes wrong.
const (
	Slow       FaultKind = iota // messages take up to Size
	LoseBefore                  // every other message is lost before it arrives
	LoseAfter                   // every other answer is lost
	Partition                   // a node reaches nobody: its calls end with their time
	Refuse                      // the store refuses connections: it restarts, and forgets nothing
	Crash                       // a node is killed, and another starts in its place after For
	Pause                       // a node stands still, and its clocks go on
	Suspend                     // a node stands still, and its monotonic clock with it
	Stall                       // the store answers nobody until it is over
	Forget                      // the store restarts empty
	Rollback                    // the store restarts as it was Size ago
	Deaf                        // notifications are lost
	Forward                     // the store's clock steps forward by Size
	Back                        // the store's clock steps back by Size
	Wall                        // a node's wall clock steps by Size, forward or back
	NoLedger                    // usage cannot be written
	Restart                     // a node is closed, and another starts in its place after For
	Idle                        // all nodes are closed for For, and nobody comes
	faultKinds
)

func (k FaultKind) String() string {
	return [...]string{"slow", "lose before", "lose after", "partition", "refuse", "crash", "pause", "suspend", "stall", "forget",
		"rollback", "deaf", "forward", "back", "wall", "no ledger", "restart", "idle"}[k]
}

// Fault is something that goes wrong at a time, and for a time.
type Fault struct {
	Kind FaultKind
	At   time.Duration
	For  time.Duration
	Node int // that it is about, if it is about one
	Size time.Duration
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s at %s for %s", f.Kind, f.At, f.For)
	if f.aboutNode() {
		s += fmt.Sprintf(", node %d", f.Node)
	}
	if f.Size != 0 {
		s += fmt.Sprintf(", %s", f.Size)
	}
	return s
}

func (f *Fault) aboutNode() bool {
	switch f.Kind {
	case Partition, Crash, Pause, Suspend, Deaf, Wall, Restart:
		return true
	}
	return false
}

// active reports whether f stands at a moment for a node; -1 is the store.
func (f *Fault) active(k FaultKind, node int, now time.Duration) bool {
	return f.Kind == k && now >= f.At && now < f.At+f.For && (!f.aboutNode() || f.Node == node)
}

func newFault(r *rand.Rand, p *Plan) Fault {
	f := Fault{
		Kind: FaultKind(r.IntN(int(faultKinds))),
		At:   between(r, 0, p.Length*9/10),
		Node: r.IntN(p.Nodes),
		For:  between(r, 50*time.Millisecond, pick(r, time.Second, time.Second, 4*time.Second, 12*time.Second)),
	}
	switch f.Kind {
	case Slow:
		f.Size = between(r, time.Millisecond, 400*time.Millisecond)
	case Pause, Suspend:
		f.For = between(r, 100*time.Millisecond, pick(r, 2*time.Second, 13*time.Second)) // a hold lives for 10 s
	case Stall:
		f.For = between(r, 100*time.Millisecond, pick(r, time.Second, time.Second, 2*time.Second, 5*time.Second, 5*time.Second, time.Minute))
	case Rollback:
		f.Size = between(r, time.Millisecond, 3*time.Second)
	case Forward, Back:
		f.Size = between(r, time.Millisecond, pick(r, 2*time.Second, 30*time.Second)).Truncate(time.Microsecond)
	case Wall:
		f.Size = pick[time.Duration](r, -1, 1) * between(r, time.Millisecond, time.Minute)
	case Idle:
		f.For = between(r, time.Minute, pick(r, 10*time.Minute, 3*time.Hour))
	}
	return f
}
