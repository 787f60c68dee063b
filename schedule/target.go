package schedule

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Sealed is how a secret begins that is sealed.
const Sealed = "sealed:"

// RepeatSafe says that a target may be called again for an event, because it
// honours the Idempotency-Key.
const RepeatSafe = "safe"

// Target is the HTTP call that servers make for each event of a plan when its slot
// is due, with the payload as the body. Package target makes the calls.
type Target struct {
	// URL is called. Everyone who may read plans sees it.
	URL string `json:"url"`

	// Method is POST, PUT, PATCH or DELETE. Empty means POST.
	Method string `json:"method,omitzero"`

	// Headers are sent along. Their values are sealed.
	Headers map[string]string `json:"headers,omitempty"`

	// Secrets sign the call, each for itself, as Standard Webhooks says.
	Secrets []TargetSecret `json:"secrets,omitempty"`

	// Success is which statuses mean that the event is done. None means 200 to
	// 299.
	Success []int `json:"success,omitempty"`

	// Repeat is [RepeatSafe], or empty: then a call that may have been executed
	// is not repeated, and the event is [Unknown].
	Repeat string `json:"repeat,omitempty"`

	// Rate is how many calls the target sees in a period, of all servers
	// together, by its own clock: see [ByAnswer]. The default is 50/s.
	Rate sluice.Limit `json:"rate,omitzero"`

	// Timeout bounds one call. 0 means 10 s.
	Timeout Duration `json:"timeout,omitzero"`

	// Attempts is how often a call is made that was not executed, or may be
	// repeated. 0 means 5.
	Attempts int `json:"attempts,omitzero"`

	// Backoff is the pause before the second attempt; it doubles for each one
	// after, up to MaxBackoff. 0 means 1 s, and 5 minutes.
	Backoff    Duration `json:"backoff,omitzero"`
	MaxBackoff Duration `json:"maxBackoff,omitzero"`

	// Concurrency is how many calls one server makes at once. 0 means 64.
	Concurrency int `json:"concurrency,omitzero"`
}

// TargetSecret is a secret that signs calls: text, or base64 after whsec_. It is
// sealed when a plan has it.
type TargetSecret struct {
	Secret string `json:"secret"`

	// Until is when it stops signing. Zero means never. A secret that is replaced
	// goes on signing for a while, so that the receiver can change over.
	Until time.Time `json:"until,omitzero"`
}

// Duration is a time.Duration that is written as text, such as "10s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes it as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	if err != nil {
		return badinput.Field("duration", string(b), `must be a duration such as "10s"`)
	}
	*d = Duration(parsed)
	return nil
}

const (
	maxTargetURL     = 2000
	maxTargetHeaders = 50
	maxTargetSecrets = 5
	maxSealed        = 8 << 10
	maxTargetTimeout = 10 * time.Minute
)

// ownHeaders are set by whoever makes the call.
var ownHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "Proxy-Connection", "Proxy-Authorization",
	"Keep-Alive", "Expect", "Idempotency-Key", "X-Idempotency-Key",
}

// withDefaults fills in what is missing and returns an error if the rest is wrong.
func (t Target) withDefaults() (*Target, error) {
	setDefault(&t.Method, http.MethodPost)
	setDefault(&t.Rate, sluice.Per(50, time.Second))
	if t.Rate.Algorithm == sluice.TokenBucket {
		t.Rate = t.Rate.WithBurst(1) // it has none
	}
	setDefault(&t.Timeout, Duration(10*time.Second))
	setDefault(&t.Attempts, defaultAttempts)
	setDefault(&t.Backoff, Duration(time.Second))
	setDefault(&t.MaxBackoff, max(t.Backoff, Duration(5*time.Minute)))
	setDefault(&t.Concurrency, 64)
	bad := func(field string, value any, reason string) (*Target, error) {
		return nil, badinput.Field("target."+field, value, reason)
	}
	to, err := url.Parse(t.URL)
	switch {
	case err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" || len(t.URL) > maxTargetURL:
		return bad("url", t.URL, "must be a whole http or https URL of at most 2000 bytes")
	case to.User != nil:
		return bad("url", to.Redacted(), "must have no user and password: use the header Authorization, whose value is sealed")
	case to.Fragment != "":
		return bad("url", t.URL, "must have no fragment")
	case !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, t.Method):
		return bad("method", t.Method, "must be POST, PUT, PATCH or DELETE")
	case t.Repeat != "" && t.Repeat != RepeatSafe:
		return bad("repeat", t.Repeat, `must be "safe", or left out`)
	case t.Rate.Algorithm != sluice.TokenBucket:
		return bad("rate", t.Rate, "must be a rate such as 50/s")
	case t.Timeout < Duration(time.Millisecond) || t.Timeout > Duration(maxTargetTimeout):
		return bad("timeout", t.Timeout, "must be 1ms to 10m")
	case t.Attempts < 1 || t.Attempts > 1000:
		return bad("attempts", t.Attempts, "must be 1 to 1000")
	case t.Backoff < 0 || t.MaxBackoff < t.Backoff || t.MaxBackoff > Duration(24*time.Hour):
		return bad("maxBackoff", t.MaxBackoff, "must be at least the first back-off and at most 24h")
	case t.Concurrency < 1 || t.Concurrency > 10_000:
		return bad("concurrency", t.Concurrency, "must be 1 to 10000")
	case len(t.Headers) > maxTargetHeaders:
		return bad("headers", len(t.Headers), fmt.Sprintf("must be at most %d", maxTargetHeaders))
	case len(t.Secrets) > maxTargetSecrets:
		return bad("secrets", len(t.Secrets), fmt.Sprintf("must be at most %d", maxTargetSecrets))
	}
	for _, status := range t.Success {
		if status < 200 || status > 599 {
			return bad("success", status, "must be statuses from 200 to 599")
		}
	}
	names := map[string]bool{}
	for name, value := range t.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || names[canonical]:
			return bad("headers", name, "must be names of headers, each once")
		case slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Webhook-") || strings.HasPrefix(canonical, "Sluice-"):
			return bad("headers", name, "is set by Sluice itself")
		case !isSealed(value):
			return bad("headers."+name, "…", "must be sealed")
		}
		names[canonical] = true
	}
	for _, s := range t.Secrets {
		if !isSealed(s.Secret) {
			return bad("secrets", "…", "must be sealed")
		}
	}
	if err := t.Rate.Validate(); err != nil {
		return nil, err
	}
	if _, period := receiverLimit(t.Rate); period > 24*time.Hour {
		return bad("rate", t.Rate, "must be at least one a day")
	}
	return &t, nil
}

func isSealed(s string) bool { return strings.HasPrefix(s, Sealed) && len(s) <= maxSealed }

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
