package server

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Services in other languages use idempotency over these: claim before the
// work, extend while it lasts, and complete or release after it.
var replayRoutes = []route{
	{"POST /v1/replays/claim", RoleService, keyed(RoleService, (*replays).claim)},
	{"POST /v1/replays/extend", RoleService, keyed(RoleService, (*replays).extend)},
	{"POST /v1/replays/complete", RoleService, keyed(RoleService, (*replays).complete)},
	{"POST /v1/replays/release", RoleService, keyed(RoleService, (*replays).release)},
}

// Whoever made a record, directly or through a gateway, finds it by these.
var recordedRoutes = []route{
	{"POST /v1/replays/lookup", RoleNone, keyed(RoleRead, (*replays).lookup)},
	{"GET /v1/replays", RoleNone, kept((*replays).recent)},
	{"GET /v1/replays/stats", RoleNone, kept((*replays).stats)},
	{"POST /v1/replays/forget", RoleNone, keyed(RoleAdmin, (*replays).forget)},
	{"POST /v1/replays/settle", RoleNone, keyed(RoleAdmin, (*replays).settle)},
}

var errNoReplays = errors.New("this server has no replays")

// replays is a request about stored responses.
type replays struct {
	*stored
	*idempotency.Keeper
}

func kept(handle func(*replays, http.ResponseWriter) error) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, c *caller) error {
		if s.replays == nil {
			return errNoReplays
		}
		q, err := s.stored(r, c)
		if err != nil {
			return err
		}
		return handle(&replays{q, s.replays}, w)
	}
}

// tenant is whose records a request is about: an entity's, or those that belong
// to the namespace. Callers without the role have those of their own entity.
func (q *replays) tenant(entity string, role Role) (string, error) {
	if c := q.caller; c.role&role == 0 {
		if c.entity == "" {
			return "", &forbiddenError{"this requires the role " + role.String() + ", or the API key or token that the requests were sent with"}
		}
		c.own = true // each request of an entity has its own caller
		entity = cmp.Or(entity, c.entity)
		if err := q.permit(q.Request, c, &takeRequest{Entity: entity}, q.namespace); err != nil {
			return "", err
		}
	}
	if entity == "" {
		return q.namespace, nil
	}
	return idempotency.Tenant(q.namespace, entity), nil
}

// keyed is kept for a function about one record, which those with the role may
// name for any entity.
func keyed(role Role, handle func(*replays, http.ResponseWriter, *replayBody, idempotency.Scope) error) handler {
	return kept(func(q *replays, w http.ResponseWriter) error {
		b, err := read[replayBody](q.Request)
		if err != nil {
			return err
		}
		tenant, err := q.tenant(b.Entity, role)
		if err != nil {
			return err
		}
		s := idempotency.Scope{Tenant: tenant, Method: b.Method, Route: b.Route, Key: b.Key}
		if err := s.Validate(); err != nil {
			return err
		}
		return handle(q, w, b, s)
	})
}

// replayBody names a record and what is to become of it.
type replayBody struct {
	Entity      string                  `json:"entity"`
	Method      string                  `json:"method"`
	Route       string                  `json:"route"`
	Key         string                  `json:"key"`
	Token       idempotency.Token       `json:"token"`
	Fingerprint idempotency.Fingerprint `json:"fingerprint"`
	Life        duration                `json:"life"`
	TTL         duration                `json:"ttl"`
	TakeOver    bool                    `json:"takeOver"`
	Response    *idempotency.Response   `json:"response"`
}

// claim asks for a key: the verdict says whether to run, to replay, to wait or
// to refuse. The token that comes back is needed for the rest.
func (q *replays) claim(w http.ResponseWriter, b *replayBody, scope idempotency.Scope) error {
	token := b.Token
	if token == (idempotency.Token{}) {
		token = idempotency.NewToken()
	}
	life, ttl := time.Duration(b.Life), time.Duration(b.TTL)
	if life == 0 {
		life = 30 * time.Second
	}
	if ttl == 0 {
		ttl = 24 * time.Hour
	}
	answer, err := q.Claim(q.Context(), idempotency.Claim{
		Scope: scope, Token: token, Fingerprint: b.Fingerprint, Life: life, TTL: ttl, TakeOver: b.TakeOver,
	})
	if err != nil {
		return err
	}
	out := client.ReplayAnswer{Answer: answer, Token: token}
	if answer.Verdict == idempotency.Finished {
		response, err := q.Replay(&answer)
		if err != nil {
			return err
		}
		out.Response = &response
	}
	return list(w, out, nil)
}

func (q *replays) extend(w http.ResponseWriter, b *replayBody, scope idempotency.Scope) error {
	return done(w, q.Extend(q.Context(), scope, b.Token, time.Duration(b.Life)))
}

func (q *replays) complete(w http.ResponseWriter, b *replayBody, scope idempotency.Scope) error {
	if b.Response == nil {
		return badinput.Field("response", "null", "must be the response to store")
	}
	if b.Response.Status < 200 || b.Response.Status > 599 {
		return badinput.Field("response.status", b.Response.Status, "must be 200 to 599")
	}
	ttl := time.Duration(b.TTL)
	if ttl == 0 {
		ttl = 24 * time.Hour
	}
	return done(w, q.Complete(q.Context(), scope, b.Token, *b.Response, ttl))
}

func (q *replays) release(w http.ResponseWriter, b *replayBody, scope idempotency.Scope) error {
	return done(w, q.Release(q.Context(), scope, b.Token))
}

func (q *replays) lookup(w http.ResponseWriter, _ *replayBody, scope idempotency.Scope) error {
	record, response, err := q.Lookup(q.Context(), scope)
	return list(w, map[string]any{"record": record, "response": response}, err)
}

// whose is the tenant that figures are about; a caller of every namespace may
// ask for everyone's.
func (q *replays) whose() (idempotency.Query, error) {
	everyone, err := q.flag("everyone")
	if err != nil {
		return idempotency.Query{}, err
	}
	tenant, err := q.tenant(q.query.Get("entity"), RoleRead)
	if err != nil {
		return idempotency.Query{}, err
	}
	if everyone {
		if err := q.everywhere(); err != nil {
			return idempotency.Query{}, err
		}
	}
	return idempotency.Query{Tenant: tenant, Everyone: everyone, Max: q.most}, nil
}

func (q *replays) recent(w http.ResponseWriter) error {
	query, err := q.whose()
	if err != nil {
		return err
	}
	records, err := q.Recent(q.Context(), query)
	return list(w, map[string]any{"replays": orEmpty(records)}, err)
}

func (q *replays) stats(w http.ResponseWriter) error {
	query, err := q.whose()
	if err != nil {
		return err
	}
	stats, err := q.Stats(q.Context(), query)
	return list(w, stats, err)
}

func (q *replays) forget(w http.ResponseWriter, _ *replayBody, scope idempotency.Scope) error {
	return done(w, q.Forget(q.Context(), scope))
}

// settle says what became of a run whose outcome is unknown: with a response
// it was done, without one it never ran.
func (q *replays) settle(w http.ResponseWriter, b *replayBody, scope idempotency.Scope) error {
	return done(w, q.Settle(q.Context(), scope, b.Response))
}
