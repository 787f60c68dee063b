package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/once"
)

// TransportConfig configures a [Transport].
type TransportConfig struct {
	// Limiter decides. Processes that share its store share the limits and
	// what any of them learns about the upstream.
	Limiter *sluice.Limiter

	// Upstream names the other side, for all processes alike: what is learned
	// about it is kept under this name.
	Upstream string

	// Namespace is that of the buckets in which it is kept.
	Namespace string

	// Demands says what a request takes, and is asked again while the request
	// waits. A request without demands is only held back while the upstream
	// wants none. Limits of concurrency are not for transports.
	Demands func(*http.Request) []sluice.Demand

	// Resolver and Subject say it in place of Demands: a request takes from
	// the limits that apply to its subject.
	Resolver catalog.Resolver
	Subject  func(*http.Request) catalog.Subject

	// Retries is how often a request that the upstream refused is sent again,
	// if that is safe; see [Transport]. 0 means never.
	Retries int

	// RepeatSafe says that the upstream honours the Idempotency-Key: a write
	// that carries one is sent again after a 503, too.
	RepeatSafe bool

	// MaxPause is the longest pause that the upstream is believed. 0 means
	// 15 min.
	MaxPause time.Duration

	// Recovery is how long it takes to get from a standstill back to full
	// speed after refusals. 0 means 5 min.
	Recovery time.Duration

	// Base sends. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Log gets a line for every pause. Nil means slog.Default.
	Log *slog.Logger
}

// Transport is an [http.RoundTripper] that takes before it sends. It waits
// in turn, by the priority that [WithPriority] gave the request's context,
// until the context ends: then it fails with the context's error and a
// [*sluice.RefusedError] that says what is in the way. Only where the upstream
// has asked for a pause past the context's deadline does it fail at once.
//
// It adapts to the upstream. A 429, or a 503 with Retry-After, pauses all
// processes for as long as it says; each 429 also halves their pace, which
// then comes back steadily. When the upstream's own RateLimit or X-RateLimit
// headers say that less than a quarter of its quota is left, what is left is
// spread over the time until it is renewed.
//
// A refused request is sent again only if that is asked for and safe: its body
// can be had again, and it only reads, or it was answered 429 and its method is
// PUT or DELETE or it carries an Idempotency-Key. After a 503 a write may have
// been executed. Everything else, errors of the network included, is the
// caller's to decide: not even the base sends a write again, whatever it carries.
type Transport struct {
	config TransportConfig
	learn  *learned
}

// NewTransport returns a transport for config.
func NewTransport(config TransportConfig) (*Transport, error) {
	switch {
	case config.Limiter == nil:
		return nil, &sluice.FieldError{Field: "transport.limiter", Reason: "must be set"}
	case config.Upstream == "" || len(config.Upstream) > sluice.MaxKeyPart:
		return nil, &sluice.FieldError{Field: "transport.upstream", Value: config.Upstream, Reason: fmt.Sprintf("must be a name of 1 to %d bytes", sluice.MaxKeyPart)}
	case (config.Demands == nil) == (config.Resolver == nil || config.Subject == nil):
		return nil, &sluice.FieldError{Field: "transport.demands", Reason: "must be set, or a resolver and a subject in its place"}
	case config.Retries < 0 || config.Retries > 10:
		return nil, &sluice.FieldError{Field: "transport.retries", Value: config.Retries, Reason: "must be 0 to 10"}
	case config.MaxPause < 0 || config.MaxPause > 24*time.Hour:
		return nil, &sluice.FieldError{Field: "transport.max_pause", Value: config.MaxPause, Reason: "must be between 0 (15 min) and a day"}
	case config.Recovery < 0 || config.Recovery > 24*time.Hour || config.Recovery%time.Second != 0:
		return nil, &sluice.FieldError{Field: "transport.recovery", Value: config.Recovery, Reason: "must be whole seconds between 0 (5 min) and a day"}
	}
	if config.MaxPause == 0 {
		config.MaxPause = 15 * time.Minute
	}
	if config.Recovery == 0 {
		config.Recovery = 5 * time.Minute
	}
	config.Base = once.Transport{Base: config.Base}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	return &Transport{config: config, learn: newLearned(&config)}, nil
}

type priorityKey struct{}

// WithPriority gives requests with this context a place in line.
func WithPriority(ctx context.Context, p sluice.Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

func priority(ctx context.Context) sluice.Priority {
	p, _ := ctx.Value(priorityKey{}).(sluice.Priority)
	return p
}

// RoundTrip waits for its turn and sends.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var pace float64
	demands, err := t.demands(r.Context(), r)
	if err == nil {
		pace, err = t.turn(r, demands)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close() //nolint:errcheck // the request was never sent
		}
		return nil, err
	}
	response, err := t.send(r, demands, pace)
	for range t.config.Retries {
		if err != nil || !refused(response) || !t.repeatable(r, response.StatusCode) {
			break
		}
		again, kept := keepBody(response)
		if !kept {
			break
		}
		if pace, err = t.turn(r, demands); err != nil {
			return again, nil // the refusal says more than that there is no time left
		}
		repeat := r.Clone(r.Context())
		if r.GetBody != nil {
			if repeat.Body, err = r.GetBody(); err != nil {
				return again, nil
			}
		}
		response, err = t.send(repeat, demands, pace)
	}
	return response, err
}

// demands are what a request takes.
func (t *Transport) demands(ctx context.Context, r *http.Request) ([]sluice.Demand, error) {
	if t.config.Demands != nil {
		return t.config.Demands(r), nil
	}
	subject := t.config.Subject(r)
	found, err := t.config.Resolver.Resolve(ctx, subject)
	if err != nil {
		return nil, err
	}
	return found.Demands(nil, subject.Entity), nil
}

// turn waits until the request may be sent, and tells at what pace, which is
// 1 at full speed.
func (t *Transport) turn(r *http.Request, demands []sluice.Demand) (pace float64, err error) {
	ctx := r.Context()
	take := sluice.Take{Demands: demands, Priority: priority(ctx), Resolve: func(ctx context.Context, take *sluice.Take) (err error) {
		take.Demands, err = t.demands(ctx, r)
		return err
	}}
	for {
		if pace, err = t.learn.wait(ctx); err != nil || len(demands) == 0 {
			return pace, err
		}
		started := time.Now()
		d, err := t.config.Limiter.Wait(ctx, take)
		if err != nil {
			return pace, err
		}
		t.slow(ctx, &d, pace)
		if time.Since(started) < fresh || !t.learn.paused(ctx) {
			return pace, nil
		}
		// The upstream has refused somebody while this request waited. What
		// it took is spent: better too slow than knocking on a closed door.
	}
}

// slow charges what a request costs more at less than full speed. It is a
// debt, so that even a bucket for one request at a time gets slower.
func (t *Transport) slow(ctx context.Context, d *sluice.Decision, pace float64) {
	if pace >= 1 {
		return
	}
	extra := make([]sluice.Demand, 0, len(d.Results))
	for i := range d.Results {
		if more := int64(float64(d.Results[i].Consumed.Thousandths()) * (1/pace - 1)); more > 0 {
			demand := d.Demands[i]
			demand.Cost = sluice.Thousandths(min(more, sluice.MaxThousandths))
			extra = append(extra, demand)
		}
	}
	if len(extra) == 0 {
		return
	}
	if _, err := t.config.Limiter.Adjust(ctx, extra...); err != nil {
		t.config.Log.WarnContext(ctx, "cannot slow down", "upstream", t.config.Upstream, "error", err)
	}
}

// send sends once and learns from the answer.
func (t *Transport) send(r *http.Request, demands []sluice.Demand, pace float64) (*http.Response, error) {
	response, err := t.config.Base.RoundTrip(r)
	if err == nil {
		// What is learned is for the others, too, so it does not end with
		// this request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
		defer cancel()
		t.learn.from(ctx, response, demands, pace)
	}
	return response, err
}

// refused reports whether the upstream did nothing but ask for less.
func refused(r *http.Response) bool {
	return r.StatusCode == http.StatusTooManyRequests ||
		r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") != ""
}

// repeatable reports whether r may be sent again after it was refused with this
// status.
func (t *Transport) repeatable(r *http.Request, status int) bool {
	keyed := r.Header.Get("Idempotency-Key") != ""
	switch {
	case r.Body != nil && r.Body != http.NoBody && r.GetBody == nil:
		return false
	case once.Safe(r.Method):
		return true
	case status == http.StatusTooManyRequests:
		return keyed || r.Method == http.MethodPut || r.Method == http.MethodDelete
	}
	return keyed && t.config.RepeatSafe
}

var errPaused = errors.New("the upstream asked for a pause")
