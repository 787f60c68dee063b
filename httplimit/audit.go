package httplimit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/internal/requestid"
)

// Refusal is a refused request as it is written to the audit log. Identifiers
// are masked.
type Refusal struct {
	Time       time.Time     `json:"time"`
	Entity     string        `json:"entity"`
	Address    string        `json:"address"`
	Tier       string        `json:"tier,omitempty"`
	Method     string        `json:"method"`
	Path       string        `json:"path"` // as sent, without the query; at most 256 bytes
	Endpoint   string        `json:"endpoint,omitempty"`
	Limit      string        `json:"limit"`
	Rule       sluice.Limit  `json:"rule"`
	Cost       sluice.Amount `json:"cost"`
	Remaining  sluice.Amount `json:"remaining"` // of the limit that refused
	RetryAfter time.Duration `json:"retry_after"`
	Source     string        `json:"source"`
	Degraded   bool          `json:"degraded,omitempty"` // decided without the store
	RequestID  string        `json:"request_id,omitempty"`
}

// Audit writes refusals down, beside the requests: they are put into a queue
// of bounded length, and counted as dropped when it is full. Which are
// written is the policy's to say.
type Audit struct {
	write   func(Refusal)
	queue   chan Refusal
	done    sync.WaitGroup
	dropped atomic.Int64
	mu      sync.RWMutex // closed excludes senders
	closed  bool
}

// NewAudit writes refusals with write, one at a time, and lets at most queue
// of them wait; 0 means 1024. Nil writes to slog.Default.
func NewAudit(write func(Refusal), queue int) (*Audit, error) {
	if queue < 0 || queue > 1<<20 {
		return nil, &sluice.FieldError{Field: "audit.queue", Value: queue, Reason: "must be between 0 (1024) and a million"}
	}
	if queue == 0 {
		queue = 1024
	}
	if write == nil {
		write = func(r Refusal) { r.Log(slog.Default()) }
	}
	a := &Audit{write: write, queue: make(chan Refusal, queue)}
	a.done.Go(func() {
		for r := range a.queue {
			a.write(r)
		}
	})
	return a, nil
}

// Log writes the refusal as a line of a log.
func (r *Refusal) Log(to *slog.Logger) {
	to.LogAttrs(context.Background(), slog.LevelInfo, "refused",
		slog.String("entity", r.Entity), slog.String("address", r.Address), slog.String("tier", r.Tier),
		slog.String("method", r.Method), slog.String("path", r.Path), slog.String("endpoint", r.Endpoint),
		slog.String("limit", r.Limit), slog.String("rule", r.Rule.String()), slog.String("cost", r.Cost.String()),
		slog.String("remaining", r.Remaining.String()), slog.Duration("retry_after", r.RetryAfter),
		slog.String("source", r.Source), slog.Bool("degraded", r.Degraded), slog.String("request_id", r.RequestID))
}

// Dropped returns how many refusals were not written because the queue was full.
func (a *Audit) Dropped() int64 { return a.dropped.Load() }

// Close writes what waits and ends.
func (a *Audit) Close() error {
	a.mu.Lock()
	closed := a.closed
	a.closed = true
	if !closed {
		close(a.queue)
	}
	a.mu.Unlock()
	a.done.Wait()
	return nil
}

// maxLoggedPath is how much of a path is written, in bytes.
const maxLoggedPath = 256

// note queues a refusal if the policy wants it.
func (a *Audit) note(r *Request, c *Call) {
	rule := c.Policy.Audit
	if a == nil || !rule.Wants(c.Tier) || rule.Sample < 1 && rand.Float64() >= rule.Sample {
		return
	}
	demand, result := c.Decision.Deciding()
	refusal := Refusal{
		Time: time.Now(), Entity: abuse.Mask(c.Identity.Entity, rule.Keep), Address: abuse.Mask(c.Identity.Address, rule.Keep),
		Tier: c.Tier, Method: r.Method, Path: r.Path[:min(len(r.Path), maxLoggedPath)], Endpoint: c.Route.Endpoint,
		Limit: c.Labels[c.Decision.Decider], Rule: demand.Limit, Cost: demand.Charge(),
		Remaining: result.Remaining, RetryAfter: c.Decision.RetryAfter,
		Source: c.Decision.Source.String(), Degraded: c.Decision.Source >= sluice.Degraded, RequestID: requestid.Of(r.Header),
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return
	}
	select {
	case a.queue <- refusal:
	default:
		a.dropped.Add(1)
	}
}
