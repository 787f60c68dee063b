package target

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/once"
	"github.com/sluice-go/sluice/internal/webhook"
	"github.com/sluice-go/sluice/schedule"
)

// guard dials public addresses, and those that are allowed by name.
type guard struct {
	allow      []string // HOST or HOST:PORT, in lower case
	free, kept net.Dialer
}

const dialTimeout = 10 * time.Second

func newGuard(allow []string) *guard {
	g := &guard{free: net.Dialer{Timeout: dialTimeout}, kept: net.Dialer{Timeout: dialTimeout, Control: webhook.Public}}
	for _, name := range allow {
		g.allow = append(g.allow, strings.ToLower(name))
	}
	return g
}

// allowed reports whether an address, as it stands in the URL, is allowed by name.
func (g *guard) allowed(address string) bool {
	address = strings.ToLower(address)
	host, _, err := net.SplitHostPort(address)
	return slices.Contains(g.allow, address) || err == nil && slices.Contains(g.allow, host)
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.allowed(address) {
		return g.free.DialContext(ctx, network, address)
	}
	return g.kept.DialContext(ctx, network, address)
}

// transport sends every call once. It uses no proxy, which would resolve names by
// itself.
func (g *guard) transport() once.Transport {
	return once.Transport{Base: &http.Transport{
		DialContext: g.dial, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
		MaxIdleConns: 1000, MaxIdleConnsPerHost: 100, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
	}}
}

// caller calls the target of one plan.
type caller struct {
	*schedule.Target
	opened
	namespace string
	transport http.RoundTripper
	saw       func(once.Outcome)
}

// drained is how much of a response is read so that its connection can be used
// again.
const drained = 64 << 10

// refusalError is why an event may be tried again, and when.
type refusalError struct {
	error
	after time.Duration
}

func (e *refusalError) Unwrap() error             { return e.error }
func (e *refusalError) RetryAfter() time.Duration { return e.after }

// call is the work of a slot: it makes one attempt, for as long as ctx lasts.
func (c *caller) call(ctx context.Context, job *schedule.Job) error {
	request, err := http.NewRequestWithContext(ctx, c.Method, c.URL, bytes.NewReader(job.Payload))
	if err != nil {
		c.saw(once.Refused)
		return schedule.Permanent(err)
	}
	c.head(request.Header, job, time.Now())
	got, after := once.Unknown, time.Duration(0)
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		got = once.Failed(err)
	} else {
		io.Copy(io.Discard, io.LimitReader(response.Body, drained)) //nolint:errcheck // the status is the answer
		response.Body.Close()                                       //nolint:errcheck // nothing is written
		if got = c.judge(response.StatusCode); got != once.Accepted {
			after, err = once.RetryAfter(response.Header, time.Now()), fmt.Errorf("the target answered %d", response.StatusCode)
		}
	}
	c.saw(got)
	switch {
	case got == once.Accepted:
		return nil
	case got == once.Refused:
		return schedule.Permanent(err)
	case got == once.Unknown && c.Repeat != schedule.RepeatSafe:
		return schedule.OutcomeUnknown(err)
	}
	return &refusalError{err, after}
}

// judge is what a status says.
func (c *caller) judge(status int) once.Outcome {
	got := once.Answered(status, c.Repeat == schedule.RepeatSafe)
	switch {
	case slices.Contains(c.Success, status):
		return once.Accepted
	case got == once.Accepted && len(c.Success) > 0:
		return once.Refused
	}
	return got
}

// head sets the headers of a call.
func (c *caller) head(h http.Header, job *schedule.Job, now time.Time) {
	for name, values := range c.headers {
		h[name] = values
	}
	if len(job.Payload) > 0 && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "sluice")
	}
	h.Set("Idempotency-Key", `"`+c.key(job)+`"`)
	h.Set("Sluice-Fence", strconv.FormatInt(job.Fence, 10))
	webhook.Sign(h, strings.TrimSpace(job.Event), now, job.Payload, c.keys(now)...) // as it arrives
}

// key is the Idempotency-Key: the same for every attempt of an event, by any
// server. An event that is assigned again after its slot was swept is another.
func (c *caller) key(job *schedule.Job) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "sluice target 1 %q %q %d", c.namespace, job.Event, job.Created.UnixMicro()))
	return hex.EncodeToString(sum[:16])
}
