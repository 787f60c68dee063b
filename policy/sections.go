package policy

import (
	"time"

	"github.com/sluice-go/sluice"
)

// Headers selects the response headers about limits.
type Headers struct {
	Send             []string      `yaml:"send" enum:"ietf,legacy,x-ratelimit" doc:"Families of headers: ietf is RateLimit and RateLimit-Policy, legacy is RateLimit-Limit, -Remaining and -Reset, x-ratelimit the same with X- in front. Default: ietf. An empty list sends none."`
	RetryAfterJitter time.Duration `yaml:"retry_after_jitter" max:"1h" doc:"Up to this much is added to Retry-After at random, so that refused callers do not come back all at once."`
	Cost             bool          `yaml:"cost" doc:"Send X-RateLimit-Cost."`
	ResetAfter       bool          `yaml:"reset_after" doc:"Send X-RateLimit-Reset-After: in how many seconds there is more, to the millisecond."`
	Source           bool          `yaml:"source" doc:"Send X-RateLimit-Source: who decided."`
	Degraded         bool          `yaml:"degraded" doc:"Send X-RateLimit-Degraded and a Warning while the store is away. Default: true."`

	// IETF, Legacy and XRateLimit are what Send names.
	IETF, Legacy, XRateLimit bool `yaml:"-"`
}

// Refusal is the content of the responses to refused callers.
type Refusal struct {
	Format  string `yaml:"format" enum:"problem+json,json" doc:"The body's format. Default: problem+json."`
	Code    string `yaml:"code" doc:"The code field of the body. Default: ERR_RATE_LIMIT."`
	Message string `yaml:"message" doc:"A sentence for people. Default: one that names the limit."`
	Docs    string `yaml:"docs" check:"link" doc:"Link to the documentation of the limits."`
	Upgrade string `yaml:"upgrade" check:"link" doc:"Link to get a larger plan; a tier's own link goes first."`
}

// Audit selects the refusals that are logged.
type Audit struct {
	Tiers  []string `yaml:"tiers" doc:"Only refusals of these tiers. Default: all."`
	Sample float64  `yaml:"sample" min:"0" max:"1" doc:"The share of refusals that is written, from 0 to 1. Default: 1."`
	Keep   int      `yaml:"keep" min:"0" max:"8" doc:"How many characters at the end of an identifier are not masked. Default: 4."`

	tiers map[string]bool
}

// Wants reports whether refusals of a tier are written, sampling aside.
func (a *Audit) Wants(tier string) bool { return a != nil && (len(a.tiers) == 0 || a.tiers[tier]) }

// Abuse is what happens to callers that keep sending after they are refused. Both
// are off unless the file has them.
type Abuse struct {
	Ban       *Ban       `yaml:"ban" doc:"Refuse callers for a while after many refusals."`
	Emergency *Emergency `yaml:"emergency" doc:"Limit callers further while they send many times what they usually do."`
}

// Ban refuses every request of a caller for a while.
type Ban struct {
	Refusals int           `yaml:"refusals,required" min:"1" max:"1000000" doc:"After this many refusals"`
	Within   time.Duration `yaml:"within,required" max:"24h" doc:"within this time"`
	For      time.Duration `yaml:"for,required" max:"720h" doc:"the caller is banned for this long."`
}

// Emergency puts a caller under a stricter limit for a while.
type Emergency struct {
	Factor   float64       `yaml:"factor,required" min:"1" max:"1000000" doc:"When a caller sends this many times its own baseline"`
	Baseline time.Duration `yaml:"baseline" max:"168h" doc:"which is its average over this time (default: 1h)"`
	AtLeast  sluice.Limit  `yaml:"at_least,required" doc:"and at least this much,"`
	Limit    sluice.Limit  `yaml:"limit,required" doc:"it may send no more than this,"`
	For      time.Duration `yaml:"for,required" max:"720h" doc:"for this long."`
}

// Idempotency configures how repeated writes to some routes are recognized.
type Idempotency struct {
	Name          string        `yaml:"-"`
	Match         []Pattern     `yaml:"match,required" doc:"Requests that may carry an Idempotency-Key."`
	Required      bool          `yaml:"required" doc:"Refuse requests without an Idempotency-Key."`
	Scope         string        `yaml:"scope" check:"scope" doc:"Whose key it is: the caller's (entity), the API key's (key), everyone's in the namespace (namespace), or that of a header or claim (header:NAME, claim:NAME), without which a request with an Idempotency-Key is refused. Default: entity."`
	Identity      string        `yaml:"identity" enum:"required,optional" doc:"Whether requests with an Idempotency-Key need an API key or token. Callers who are known by their address alone can repeat a write from another address. Default: optional."`
	Headers       []string      `yaml:"headers" check:"header" doc:"Response headers that are kept in addition to those that describe the body or what was made."`
	TTL           time.Duration `yaml:"ttl" max:"720h" doc:"How long a response is kept. Default: 24h."`
	StoreErrors   bool          `yaml:"store_errors" doc:"Also keep responses that say the request or the server failed (4xx and 5xx). Default: only 2xx."`
	MaxRun        time.Duration `yaml:"max_run" max:"1h" doc:"How long a request may take. Default: 5m, or the ttl if that is shorter."`
	OnCrash       string        `yaml:"on_crash" enum:"run_again,outcome_unknown" doc:"What happens to a repeat if nobody knows whether the first request was executed, because the gateway or the upstream died, the connection broke or the answer took too long: it is told so until someone settles it, or it runs once max_run has passed since the first began. Default: outcome_unknown."`
	OnUnavailable string        `yaml:"on_unavailable" enum:"run,refuse" doc:"What is done while the replay store is away. Default: run."`
	MaxBody       Bytes         `yaml:"max_body" max:"67108864" doc:"The largest response that is kept. Default: 1MiB."`
	ReplayCost    string        `yaml:"replay_cost" enum:"full,one,none" doc:"What a replayed response costs: as much as the first, one token, or nothing. Default: none."`

	// Source is the name of the header or claim that Scope names. Scope is then
	// "header" or "claim".
	Source string `yaml:"-"`
}

// Bytes is a size: 512, 64KiB or 1MiB in a file.
type Bytes int64
