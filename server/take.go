package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

const (
	// maxBody is the largest request that is read, in bytes.
	maxBody = 64 << 10
	// maxTakes is how many takes one request may ask for.
	maxTakes = 100
	// maxWait is the longest that a take may wait.
	maxWait = time.Minute
)

var takeRoutes = []route{
	{"POST /v1/take", RoleTake, (*server).take},
	{"POST /v1/takes", RoleTake, (*server).takes},
	{"POST /v1/adjust", RoleTake, (*server).adjust},
	{"POST /v1/reset", RoleAdmin, (*server).reset},
}

// takeRequest is the body of a take. Costs and limits are read in a second
// step, so that a mistake in them is reported with the field's name.
type takeRequest struct {
	Entity   string            `json:"entity"`
	Resource string            `json:"resource"`
	Tier     string            `json:"tier"`
	Cost     json.RawMessage   `json:"cost"` // a number, or one for each limit by name
	Limits   map[string]string `json:"limits"`
	Peek     bool              `json:"peek"`
	UpTo     bool              `json:"upTo"`
	Wait     duration          `json:"wait"`
	Priority string            `json:"priority"`
	Keep     duration          `json:"keep"` // of a lease
	id       string            // the Idempotency-Key, by which a store knows it again
	file     *catalog.Declaration
	found    *catalog.Resolution // what applies, once it is planned
}

// take decides one take: 200 or 429.
func (s *server) take(w http.ResponseWriter, r *http.Request, c *caller) error {
	t := turns.Get().(*turn)
	defer t.done()
	if err := t.read(r); err != nil {
		return err
	}
	q, take, d := &t.request, &t.take, &t.decision
	var err error
	if q.id, err = idempotencyKey(r); err != nil {
		return err
	}
	if q.Keep != 0 {
		return badinput.Field("keep", time.Duration(q.Keep), "only a lease has one: POST /v1/leases")
	}
	if t.demands, err = s.plan(r, c, q, take, t.demands[:0], t.costs[:0]); err != nil {
		return err
	}
	t.lent = true
	if err := s.decide(w, r, take, d, time.Duration(q.Wait)); err != nil {
		return err
	}
	t.decided()
	t.out = s.writeDecision(w, t.out, &t.call, d, q.found, http.StatusOK, "", c.own)
	return nil
}

// wait waits in line for as long as the caller wants. If its turn does not
// come, that is a refusal.
func (s *server) wait(w http.ResponseWriter, r *http.Request, take *sluice.Take, d *sluice.Decision, wait time.Duration) error {
	allow(w, wait+writeTimeout)
	ctx := r.Context()
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(closing(ctx), cancel)()
	var err error
	*d, err = s.limiter.Wait(limited, *take)
	if _, refused := errors.AsType[*sluice.RefusedError](err); refused {
		return nil // the decision says why
	}
	return err
}

// idempotencyKey is what makes a request safe to repeat; "" if there is none.
func idempotencyKey(r *http.Request) (string, error) {
	key, _, err := idempotency.KeyOf(r.Header)
	if err != nil {
		return "", badinput.Field(idempotency.KeyHeader, strings.Join(r.Header.Values(idempotency.KeyHeader), ", "), err.Error())
	}
	return key, nil
}

// takes decides several, each by itself, and answers 200 with what became of
// each. One Idempotency-Key is for all of them.
func (s *server) takes(w http.ResponseWriter, r *http.Request, c *caller) error {
	request, err := read[struct {
		Takes []takeRequest `json:"takes"`
	}](r)
	if err != nil {
		return err
	}
	if len(request.Takes) == 0 || len(request.Takes) > maxTakes {
		return badinput.Field("takes", len(request.Takes), fmt.Sprintf("must be 1 to %d", maxTakes))
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	plans := make([]sluice.Take, len(request.Takes))
	for i := range request.Takes {
		q := &request.Takes[i]
		if key != "" {
			q.id = key + "\x1f" + strconv.Itoa(i) // which no key has
		}
		_, err := s.plan(r, c, q, &plans[i], nil, nil)
		if err == nil && (q.Wait != 0 || q.Keep != 0) {
			err = badinput.Field("wait", time.Duration(q.Wait+q.Keep), "takes in a batch cannot wait or be leases")
		}
		var field *sluice.FieldError
		if errors.As(err, &field) {
			return badinput.Field(fmt.Sprintf("takes[%d].%s", i, field.Field), field.Value, field.Reason)
		}
		if err != nil {
			return fmt.Errorf("takes[%d]: %w", i, err)
		}
	}
	out := []byte(`{"decisions":[`)
	for i := range plans {
		if i > 0 {
			out = append(out, ',')
		}
		var d sluice.Decision
		if err := s.decide(w, r, &plans[i], &d, 0); err != nil {
			text, err := json.Marshal(map[string]problem{"problem": s.problem(r, err)})
			if err != nil {
				return err
			}
			out = append(out, text...)
			continue
		}
		out = appendDecision(out, &d, "", c.own)
	}
	writeJSON(w, http.StatusOK, "application/json", json.RawMessage(append(out, "]}"...)))
	return nil
}

// adjust consumes or refunds without asking.
func (s *server) adjust(w http.ResponseWriter, r *http.Request, c *caller) error {
	q, err := read[takeRequest](r)
	if err != nil {
		return err
	}
	if q.Peek || q.UpTo || q.Wait != 0 || q.Keep != 0 {
		return badinput.Field("body", "peek, upTo, wait or keep", "an adjustment is made at once and has none of these")
	}
	if key, err := idempotencyKey(r); err != nil || key != "" {
		return cmp.Or(err, badinput.Field(idempotency.KeyHeader, key, "an adjustment cannot be repeated safely: adjust a lease to its whole cost instead"))
	}
	var each map[string]sluice.Amount
	if err := json.Unmarshal(q.Cost, &each); err != nil || len(each) == 0 {
		return badinput.Field("cost", string(q.Cost), "must be an object of amounts by limit; negative ones are refunds")
	}
	q.Cost = nil
	var take sluice.Take
	if _, err := s.plan(r, c, q, &take, nil, nil); err != nil {
		return err
	}
	if err := c.mayCharge(take.Demands, sortedCosts(each)); err != nil {
		return err
	}
	var changes []sluice.Demand
	for _, cost := range sortedCosts(each) {
		found := false
		for _, d := range take.Demands {
			if d.Key.Limit == cost.Limit {
				d.Cost, found = cost.Cost, true
				changes = append(changes, d)
			}
		}
		if !found {
			return badinput.Field("cost."+excerpt.Of(cost.Limit), cost.Cost, "no such limit applies")
		}
	}
	s.asTaken(r, q, changes)
	leave, err := s.charging.enter(r.Context(), c)
	if err != nil {
		return err
	}
	defer leave()
	if c.own {
		if err := s.solvent(r.Context(), changes); err != nil {
			return err
		}
	}
	d, err := s.limiter.Adjust(r.Context(), changes...)
	if err != nil {
		return err
	}
	writeSettled(w, &d, "", c.own)
	return nil
}

// asTaken makes changes go by the rules that the buckets were last taken by,
// where nobody says the tier: it may be known to the caller's key alone. What is
// stored for the entity needs no tier, and what cannot be looked up stays.
func (s *server) asTaken(r *http.Request, q *takeRequest, changes []sluice.Demand) {
	if q.Tier != "" || q.Limits != nil || q.Resource == "" {
		return
	}
	page, err := s.limiter.List(r.Context(), sluice.Query{Namespace: changes[0].Key.Namespace, Entity: q.Entity, Resource: q.Resource, Max: 1000})
	if err != nil {
		return
	}
	for i := range page.Buckets {
		for j := range changes {
			if d := &changes[j]; d.Key == page.Buckets[i].Key && d.Level < sluice.LevelEntity {
				d.Limit = page.Buckets[i].Limit
			}
		}
	}
}

// reset makes the buckets of an entity and resource as new.
func (s *server) reset(w http.ResponseWriter, r *http.Request, c *caller) error {
	q, err := read[takeRequest](r)
	if err != nil {
		return err
	}
	var take sluice.Take
	if _, err := s.plan(r, c, q, &take, nil, nil); err != nil {
		return err
	}
	keys := make([]sluice.Key, 0, len(take.Demands))
	for i := range take.Demands {
		if take.Demands[i].Key.Entity == q.Entity { // not those of its ancestors
			keys = append(keys, take.Demands[i].Key)
		}
	}
	return done(w, s.limiter.Reset(r.Context(), keys...))
}
