package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Role is what a caller of the server may do. An API key has the roles of all
// its scopes; docs/trust.md has the whole table.
type Role uint8

const (
	// RoleTake may take, and settle its leases, for its own entity and those
	// below it, with the limits that are stored.
	RoleTake Role = 1 << iota
	// RoleRead may read everything in its namespace but keys and audit events.
	RoleRead
	// RoleService is for back-ends that are trusted: it may take for any
	// entity, with limits that it brings, and give back. It includes RoleRead
	// and RoleTake.
	RoleService
	// RoleAdmin may change what is stored. It includes all others.
	RoleAdmin

	// RoleNone may only check health and, with an API key or token, its own
	// status.
	RoleNone Role = 0
)

var roles = [...]struct {
	role  Role
	name  string
	scope string // what API keys need
	all   Role   // with those that it includes
}{
	{RoleTake, "take", "sluice:take", RoleTake},
	{RoleRead, "read", "sluice:read", RoleRead},
	{RoleService, "service", "sluice:service", RoleService | RoleRead | RoleTake},
	{RoleAdmin, "admin", "sluice:admin", RoleAdmin | RoleService | RoleRead | RoleTake},
}

func (r Role) String() string {
	var names []string
	for _, known := range roles {
		if r&known.role != 0 {
			names = append(names, known.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, " or ")
}

// full is r with all that it includes.
func (r Role) full() (all Role) {
	for _, known := range roles {
		if r&known.role != 0 {
			all |= known.all
		}
	}
	return all
}

// general reports whether r is a role of callers that stand for no entity.
func (r Role) general() bool { return r == RoleRead || r == RoleService || r == RoleAdmin }

// Access controls who may do what. The zero Access admits nobody.
type Access struct {
	// Open lets everyone do everything, for a server that only this machine
	// can reach. Requests from pages of other sites are refused.
	Open bool

	// Tokens are what callers may bring, in "Authorization: Bearer".
	Tokens []Token

	// Named are more of them, which can be replaced while the server runs.
	// Nil means none.
	Named *TokenList

	// Certificates is the role of callers whose certificate the listener has
	// verified: RoleRead, RoleService or RoleAdmin. RoleNone means that they
	// need a token all the same.
	Certificates Role
}

// caller is who sends a request.
type caller struct {
	name      string
	key       string // an API key as an entity
	entity    string // whom an API key or token stands for
	tier      string
	namespace string // the only one they may use; "" for any
	role      Role   // with all that it includes
	own       bool   // the request may be about the caller's own entity alone
}

// anybody is who may do everything because nobody else can get here.
var anybody = &caller{name: "local", role: RoleAdmin.full()}

// doorman is Access made ready for questions.
type doorman struct {
	open         bool
	certificates Role
	tokens       []knownToken
	named        *TokenList
	origins      http.CrossOriginProtection
}

func newDoorman(a Access) (*doorman, error) {
	if a.Certificates != RoleNone && !a.Certificates.general() {
		return nil, &sluice.FieldError{Field: "certificates", Value: a.Certificates, Reason: "must be read, service or admin: a certificate stands for no entity"}
	}
	known, err := knowTokens(a.Tokens)
	if err != nil {
		return nil, err
	}
	return &doorman{open: a.Open, certificates: a.Certificates.full(), tokens: known, named: cmp.Or(a.Named, new(TokenList))}, nil
}

var errNoCredential = errors.New("a token is required: send Authorization: Bearer")

// identify finds out who is calling.
func (s *server) identify(r *http.Request) (*caller, error) {
	if secret, sent := bearer(r.Header["Authorization"]); sent {
		return s.identifySecret(r.Context(), secret)
	}
	switch {
	case s.door.open:
		return anybody, s.door.fromHere(r)
	case s.door.certificates != RoleNone && r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		name := r.TLS.VerifiedChains[0][0].Subject.String()
		return &caller{name: name[:min(len(name), maxActor)], role: s.door.certificates}, nil
	}
	return nil, errNoCredential
}

// self finds out who asks about themselves: the holder of a stored key, or
// whoever the policy knows by a key or token.
func (s *server) self(r *http.Request) (*caller, error) {
	c, err := s.identify(r)
	_, sent := bearer(r.Header["Authorization"])
	if s.gate == nil || err == nil && sent || err != nil && !errors.Is(err, errNoCredential) && !errors.Is(err, catalog.ErrKey) {
		return c, err
	}
	if s.catalog != nil { // a key of any namespace, as with Bearer
		for _, name := range s.gate.Policy().Identity.KeyHeaders {
			if found, err := s.identifySecret(r.Context(), r.Header.Get(name)); err == nil && found.key != "" {
				return found, nil
			}
		}
	}
	id, gateErr := s.gate.Identify(r.Context(), &httplimit.Request{Header: r.Header, Remote: r.RemoteAddr})
	var invalid *identity.InvalidError
	switch {
	case errors.As(gateErr, &invalid):
		return nil, cmp.Or(err, error(catalog.ErrKey))
	case gateErr != nil:
		return nil, gateErr
	case id.Kind == identity.ByAddress:
		return c, err
	}
	return &caller{name: id.Entity, key: id.Key, entity: id.Entity, tier: id.Tier, namespace: s.gate.Policy().Namespace}, nil
}

// maxActor is the longest name that is written down of who did something.
const maxActor = 200

func bearer(header []string) (secret string, sent bool) {
	const scheme = "Bearer "
	if len(header) == 0 || len(header[0]) < len(scheme) || !strings.EqualFold(header[0][:len(scheme)], scheme) {
		return "", false
	}
	return strings.TrimSpace(header[0][len(scheme):]), true
}

// fromHere keeps out what a browser sends in the name of another site, also
// of one that has pointed its own name at this address.
func (d *doorman) fromHere(r *http.Request) error {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" && host != "" {
		return &forbiddenError{"without a token, use the server's address or localhost as the host"}
	}
	if len(r.Header["Origin"]) == 0 && len(r.Header["Sec-Fetch-Site"]) == 0 {
		return nil
	}
	if err := d.origins.Check(r); err != nil {
		return &forbiddenError{"requests from pages of other sites are refused"}
	}
	return nil
}

func (s *server) identifySecret(ctx context.Context, secret string) (*caller, error) {
	if found := s.door.find(secret); found != nil {
		return found, nil
	}
	if s.catalog == nil {
		return nil, catalog.ErrKey
	}
	key, err := s.catalog.VerifyKey(ctx, secret)
	if err != nil {
		return nil, err
	}
	c := &caller{name: key.ID, key: "key:" + key.ID, entity: key.Entity, tier: key.Tier, namespace: key.Namespace}
	for _, known := range roles {
		if key.HasScope(known.scope) {
			c.role |= known.all
		}
	}
	return c, nil
}

// by is who makes a change, for the audit log.
func by(r *http.Request, c *caller) catalog.By {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	return catalog.By{Actor: c.name, From: from, Reason: r.Header.Get("Sluice-Reason")}
}

// namespaceOf is the namespace that a request is about: the caller's, else the
// one that it names, else that of the policy.
func (s *server) namespaceOf(r *http.Request, c *caller) (string, error) {
	asked := ""
	if h := r.Header["Sluice-Namespace"]; len(h) > 0 {
		asked = h[0]
	}
	switch {
	case c.namespace != "" && asked != "" && asked != c.namespace:
		return "", &forbiddenError{"the key belongs to another namespace"}
	case c.namespace != "":
		return c.namespace, nil
	case asked == "" && s.gate != nil:
		return s.gate.Policy().Namespace, nil
	case asked == "":
		return catalog.DefaultNamespace, nil
	case len(asked) > 64 || strings.Contains(asked, "/"):
		return "", badinput.Field("Sluice-Namespace", asked, "must be the name of a namespace")
	}
	return asked, nil
}

// forbiddenError says what a caller may not do.
type forbiddenError struct{ why string }

func (e *forbiddenError) Error() string { return e.why }
