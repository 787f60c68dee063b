package idempotency

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-go/sluice"
)

// Route is how requests of one kind are handled. Name and Tenant must be given;
// [Route.Prepare] fills in the rest.
type Route struct {
	// Name is the route's: part of what a key belongs to. Keys of one route
	// are independent of those of another.
	Name string

	// Tenant says whose key it is, so that nobody gets another's response. It
	// must be the caller as it was authenticated: an account or an API key,
	// not something that changes between a request and its repeat.
	Tenant func(*http.Request) string

	// Identified reports whether a request tells whose key it is. One that does
	// not is refused if it has a key. Nil means that all do.
	Identified func(*http.Request) bool

	// Credential is for routes on which Tenant may not tell callers apart for
	// sure, such as by address: what the caller shows to somebody further in.
	// A repeat that shows something else is refused like one with another
	// body. Only a digest of it is kept. Nil or "" adds nothing.
	Credential func(*http.Request) string

	// Required refuses requests without a key. Otherwise they just run.
	Required bool

	// TTL is how long a result is kept. 0 means 24 h.
	TTL time.Duration

	// Life is how long a claim stands unless it is extended: so long after a
	// crash a run counts as going on. Runs that take longer extend it. 0 means
	// 30 s, or MaxRun if that is shorter.
	Life time.Duration

	// MaxRun ends the context of a run that takes longer, and extends its
	// claim no more: a run does not end when its client goes. 0 means 1 h.
	MaxRun time.Duration

	// Statuses are those that are stored, such as "2xx" or "404"; all others
	// leave no record, so that a repeat runs. Of a class those that say "not
	// now" or "not you" never are: 401, 403, 408, 409, 425, 429 and 503. Nil
	// means 2xx.
	Statuses []string

	// Headers are those that are stored. Nil means [DefaultHeaders]. Cookies,
	// dates, rate limits, credentials and what belongs to the connection are
	// refused.
	Headers []string

	// MaxBody is the largest response that is stored, in bytes. Of a larger
	// one only is known that it was. 0 means 1 MiB.
	MaxBody int64

	// MaxBuffer is the largest request body that is read before the handler
	// runs. A larger one is passed on as it comes and compared as far as the
	// handler has read it. 0 means 1 MiB.
	MaxBuffer int64

	// OnCrash is what happens to a repeat after a run that crashed.
	OnCrash OnCrash

	// OnUnavailable is what happens while the store cannot be asked.
	OnUnavailable OnUnavailable

	// OnReplay is called before a replay is answered. A limiter in front,
	// which has charged for a first run, gives back here what a replay does
	// not cost. Nil does nothing.
	OnReplay func(*http.Request)

	prepared bool
	keeps    [600]bool
	headers  []string // canonical
}

// OnCrash is what happens to a repeat after a run that crashed.
type OnCrash uint8

const (
	// RunAgain lets the repeat run once the claim has lapsed. The write may
	// happen twice.
	RunAgain OnCrash = iota
	// OutcomeUnknown answers that nobody knows, until [Keeper.Settle] or
	// [Keeper.Forget] does, or the record's TTL is over.
	OutcomeUnknown
)

func (o OnCrash) String() string { return name(o, crashNames...) }

var crashNames = []string{"run_again", "outcome_unknown"}

// MarshalText writes the name of o.
func (o OnCrash) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the name of o.
func (o *OnCrash) UnmarshalText(b []byte) error {
	return parseName(o, "on_crash", string(b), crashNames)
}

// OnUnavailable is what happens while the store cannot be asked.
type OnUnavailable uint8

const (
	// RunAnyway runs the request as if it had no key, and says so in the log
	// and in the response.
	RunAnyway OnUnavailable = iota
	// Refuse answers 503.
	Refuse
)

func (o OnUnavailable) String() string { return name(o, unavailableNames...) }

var unavailableNames = []string{"run", "refuse"}

// MarshalText writes the name of o.
func (o OnUnavailable) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the name of o.
func (o *OnUnavailable) UnmarshalText(b []byte) error {
	return parseName(o, "on_unavailable", string(b), unavailableNames)
}

const (
	defaultTTL    = 24 * time.Hour
	defaultLife   = 30 * time.Second
	defaultMaxRun = time.Hour
	defaultBody   = 1 << 20
	mostBody      = 64 << 20
)

// neverStored say that it is not the time, or not the one to ask: an answer to
// this request alone.
var neverStored = []int{401, 403, 408, 409, 425, 429, 503}

// Prepare fills in what was left out and says what is wrong. A route must be
// prepared before it is used, and not changed after.
func (r *Route) Prepare() error {
	setDefault(&r.TTL, defaultTTL)
	setDefault(&r.MaxRun, min(defaultMaxRun, r.TTL))
	setDefault(&r.Life, min(defaultLife, max(r.MaxRun, MinLife)))
	setDefault(&r.MaxBody, defaultBody)
	setDefault(&r.MaxBuffer, defaultBody)
	bad := func(field string, value any, reason string) error {
		return &sluice.FieldError{Field: "route." + field, Value: value, Reason: reason}
	}
	switch {
	case len(r.Name) < 1 || len(r.Name) > MaxName:
		return bad("name", r.Name, "must be 1 to 255 bytes long")
	case r.Tenant == nil:
		return bad("tenant", "none", "must be given, or one caller gets another's responses; if there is only one caller, answer a constant")
	case r.TTL < MinTTL || r.TTL > MaxTTL:
		return bad("ttl", r.TTL, fmt.Sprintf("must be %s to %s", MinTTL, MaxTTL))
	case r.Life < MinLife || r.Life > MaxLife || r.Life > r.TTL:
		return bad("life", r.Life, fmt.Sprintf("must be %s to %s, and at most the ttl", MinLife, MaxLife))
	case r.MaxRun < 0 || r.MaxRun > r.TTL: // a record that expires under a run lets a repeat in
		return bad("max_run", r.MaxRun, "must be above 0 and at most the ttl")
	case r.MaxBody < 0 || r.MaxBody > mostBody:
		return bad("max_body", r.MaxBody, fmt.Sprintf("must be 1 to %d bytes", mostBody))
	case r.MaxBuffer < 0 || r.MaxBuffer > mostBody:
		return bad("max_buffer", r.MaxBuffer, fmt.Sprintf("must be 1 to %d bytes", mostBody))
	}
	if err := r.parseStatuses(); err != nil {
		return err
	}
	if err := r.parseHeaders(); err != nil {
		return err
	}
	r.prepared = true
	return nil
}

func setDefault[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

func (r *Route) parseStatuses() error {
	if r.Statuses == nil {
		r.Statuses = []string{"2xx"}
	}
	r.keeps = [600]bool{}
	for _, text := range r.Statuses {
		if len(text) == 3 && text[0] >= '2' && text[0] <= '5' && text[1:] == "xx" {
			first := int(text[0]-'0') * 100
			for status := first; status < first+100; status++ {
				r.keeps[status] = !slices.Contains(neverStored, status)
			}
			continue
		}
		status, err := strconv.Atoi(text)
		if err != nil || status < 200 || status > 599 {
			return &sluice.FieldError{Field: "route.statuses", Value: text, Reason: "must be 2xx to 5xx, or 200 to 599"}
		}
		if slices.Contains(neverStored, status) {
			return &sluice.FieldError{Field: "route.statuses", Value: status, Reason: "says that it is not the time or not the caller, which may be different for the repeat: it is never stored"}
		}
		r.keeps[status] = true
	}
	return nil
}

// stores reports whether a response with this status is kept.
func (r *Route) stores(status int) bool {
	return status >= 0 && status < len(r.keeps) && r.keeps[status]
}
