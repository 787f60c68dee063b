package policy

import (
	"github.com/sluice-go/sluice/identity"
)

// document is a policy file as it is written. Tags on the fields are read by
// the decoder and by the schema: yaml is the key, doc what an editor shows,
// enum, min, max and check what is allowed.
type document struct {
	Version       int                   `yaml:"version,required" min:"1" max:"1" doc:"The version of this format: 1."`
	Namespace     string                `yaml:"namespace" check:"name" doc:"Keeps the buckets of this policy apart from others on the same store. Default: default."`
	Tiers         ordered[tierRule]     `yaml:"tiers" doc:"Plans, by name."`
	DefaultTier   string                `yaml:"default_tier" doc:"The tier of callers who are known but have none. Default: the only tier."`
	AnonymousTier string                `yaml:"anonymous_tier" doc:"The tier of callers who are known by their address alone. Default: default_tier."`
	Limits        ordered[setRule]      `yaml:"limits" doc:"Sets of limits, by name. All that match a request apply together."`
	Endpoints     ordered[endpointRule] `yaml:"endpoints" doc:"What is special about some requests, by name. The most specific pattern wins."`
	OnUnavailable *Unavailable          `yaml:"on_unavailable" doc:"What to answer when the store cannot be asked, unless a limit or endpoint says otherwise. Default: degrade."`
	Exempt        exemptions            `yaml:"exempt" doc:"Requests that are never limited."`
	Allow         []string              `yaml:"allow" doc:"Callers who are never limited: addresses, networks, and entities such as key:ci or user:42."`
	Deny          []string              `yaml:"deny" doc:"Callers who are always refused."`
	Identity      identity.Config       `yaml:"identity" doc:"How callers are recognized: API key, else signed token, else address."`
	Headers       Headers               `yaml:"headers" doc:"What responses tell about limits."`
	Upstream      Upstream              `yaml:"upstream" doc:"What the server behind the gate is told about the caller."`
	Refusal       Refusal               `yaml:"refusal" doc:"What refused callers get to read."`
	Degraded      Degraded              `yaml:"degraded" doc:"What happens while the store is away."`
	Audit         *Audit                `yaml:"audit" doc:"Which refusals are written to the audit log. Without it, none."`
	Abuse         Abuse                 `yaml:"abuse" doc:"What is done about callers who go on and on. Without it, nothing."`
	Idempotency   ordered[Idempotency]  `yaml:"idempotency" doc:"Routes on which a repeated write gets the first one's response, by name."`
	System        systemRule            `yaml:"system" doc:"Stored for plan and apply: what holds for everything."`
	Resources     ordered[resourceRule] `yaml:"resources" doc:"Stored for plan and apply: limits of resources that are used by other means than the requests above."`
	Entities      ordered[entityRule]   `yaml:"entities" doc:"Stored for plan and apply: entities with their own limits."`
}

// tierRule is a plan.
type tierRule struct {
	Upgrade string           `yaml:"upgrade" check:"link" doc:"Link for refusals of this tier: where to get more."`
	Default *Numbers         `yaml:"default" doc:"Numbers for every set that counts callers, keys or users and has none here."`
	Limits  ordered[Numbers] `yaml:"limits" doc:"Numbers by the name of a set or a resource."`
}

// setRule is a set of limits: whose tokens it counts, for which requests.
type setRule struct {
	Per           string       `yaml:"per" check:"per" doc:"Whose tokens are counted: caller (API key, else user, else address), key, user, ip, everyone, header:NAME or claim:NAME. Default: caller."`
	Limit         *Numbers     `yaml:"limit" doc:"Numbers for tiers that have none of their own."`
	Match         []Pattern    `yaml:"match" doc:"Requests it applies to, such as POST /api/search or /api/**. Default: all."`
	Access        string       `yaml:"access" enum:"read,write" doc:"Only requests that read, or only those that write."`
	Missing       string       `yaml:"missing" enum:"share,skip" doc:"Requests without the header or claim: share one bucket, or are not counted. Default: share."`
	Criticality   string       `yaml:"criticality" enum:"normal,critical" doc:"Critical limits are always decided by the store itself. Default: normal."`
	Shadow        bool         `yaml:"shadow" doc:"Decide and count, but never block."`
	Announce      *bool        `yaml:"announce" doc:"Whether callers are told about it. With false they are told when to come back, and neither its name nor its numbers. Default: true."`
	OnUnavailable *Unavailable `yaml:"on_unavailable" doc:"What to answer when the store cannot be asked."`

	// What compiling makes of it.
	name, source, prefix string
	kind                 Kind
}

func (s *setRule) unannounced() bool { return s.Announce != nil && !*s.Announce }

// endpointRule is what is special about some requests.
type endpointRule struct {
	Match         []Pattern       `yaml:"match,required" doc:"Requests, such as POST /api/search or /api/**."`
	Cost          *costs          `yaml:"cost" doc:"What a request costs: a number of tokens, or one for each limit name. Default: 1."`
	Scopes        []string        `yaml:"scopes" check:"scope" doc:"Scopes that the caller's key or token must have, all of them. Others are answered 403, or 401 if they show neither."`
	Settle        ordered[string] `yaml:"settle" check:"header" doc:"Response headers that tell the real cost afterwards, by limit name."`
	Access        string          `yaml:"access" enum:"read,write" doc:"Whether it reads or writes. Default: by method; GET, HEAD, OPTIONS and TRACE read."`
	Criticality   string          `yaml:"criticality" enum:"normal,critical" doc:"Critical requests are always decided by the store itself. Default: normal."`
	Shadow        bool            `yaml:"shadow" doc:"Decide and count, but never block."`
	OnUnavailable *Unavailable    `yaml:"on_unavailable" doc:"What to answer when the store cannot be asked."`
}

// exemptions are requests that are never limited.
type exemptions struct {
	Methods []string  `yaml:"methods" check:"method" doc:"Methods, whatever the path: OPTIONS."`
	Match   []Pattern `yaml:"match" doc:"Requests, such as GET /healthz. A more specific endpoint is not exempt."`
}

// systemRule is what holds for everything.
type systemRule struct {
	Limit         *Numbers `yaml:"limit" doc:"Numbers for every resource that has none."`
	OnUnavailable string   `yaml:"on_unavailable" enum:"allow,deny,degrade" doc:"What to answer when the store cannot be asked."`
}

// resourceRule is the limits of a resource.
type resourceRule struct {
	Limit         *Numbers `yaml:"limit,required" doc:"Numbers for entities and tiers that have none of their own."`
	OnUnavailable string   `yaml:"on_unavailable" enum:"allow,deny,degrade" doc:"What to answer when the store cannot be asked."`
}

// entityRule is an entity with its own limits.
type entityRule struct {
	Name     string            `yaml:"name" doc:"For people."`
	Parent   string            `yaml:"parent" doc:"The entity that it belongs to."`
	Cascade  bool              `yaml:"cascade" doc:"Takes are also taken from the parent."`
	Tier     string            `yaml:"tier" doc:"Its plan."`
	Metadata map[string]string `yaml:"metadata" doc:"Anything worth remembering."`
	Default  *Numbers          `yaml:"default" doc:"Numbers for every resource that has none here."`
	Limits   ordered[Numbers]  `yaml:"limits" doc:"Numbers by the name of a set or a resource."`
}
