package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

var leaseRoutes = []route{
	{"POST /v1/leases", RoleTake, (*server).acquire},
	{"PATCH /v1/leases/{id}", RoleTake, (*server).change},
	{"POST /v1/leases/{id}/commit", RoleTake, (*server).commit},
	{"DELETE /v1/leases/{id}", RoleTake, (*server).release},
}

// acquire takes and gives a lease: 201 or 429. A repetition with the same
// Idempotency-Key gets the same lease, whose id it is.
func (s *server) acquire(w http.ResponseWriter, r *http.Request, c *caller) error {
	q, err := read[takeRequest](r)
	if err != nil {
		return err
	}
	if q.id, err = idempotencyKey(r); err != nil {
		return err
	}
	anonymous := q.id == "" // nobody can repeat it
	if anonymous {
		q.id = rand.Text()
	}
	if q.Peek {
		return badinput.Field("peek", true, "a peek has no lease: POST /v1/take")
	}
	var take sluice.Take
	if _, err := s.plan(r, c, q, &take, nil, nil); err != nil {
		return err
	}
	take.Lease = true
	var d sluice.Decision
	err = s.decide(w, r, &take, &d, time.Duration(q.Wait))
	if anonymous && !d.Allowed && (d.Source == sluice.Unknown || errors.Is(err, sluice.ErrUnknown)) {
		s.limiter.Abandon(r.Context(), take.ID)
	}
	if err != nil {
		return err
	}
	lease := ""
	if d.Allowed && len(d.Demands) > 0 { // there is nothing to settle where everything is unlimited
		lease = q.id
		w.Header().Set("Location", "/v1/leases/"+url.PathEscape(lease))
	}
	s.writeDecision(w, nil, &httplimit.Call{}, &d, q.found, http.StatusCreated, lease, c.own)
	return nil
}

// settlement is what a lease is changed to.
type settlement struct {
	Costs map[string]sluice.Amount `json:"costs"`
	Keep  duration                 `json:"keep"`
}

// change adjusts a lease to its real costs, or lets it live longer, or both.
func (s *server) change(w http.ResponseWriter, r *http.Request, c *caller) error {
	q, err := read[settlement](r)
	if err != nil {
		return err
	}
	if len(q.Costs) == 0 && q.Keep == 0 {
		return badinput.Field("costs", "{}", "must give the costs of the lease, or keep how long it lasts")
	}
	to := sluice.Settlement{Costs: sortedCosts(q.Costs), Action: sluice.Adjust}
	if q.Keep != 0 {
		to.Action, to.Keep = sluice.Renew, time.Duration(q.Keep)
	}
	return s.settle(w, r, c, to)
}

// commit ends a lease; its tokens stay spent.
func (s *server) commit(w http.ResponseWriter, r *http.Request, c *caller) error {
	q, err := readOptional[settlement](r)
	if err != nil {
		return err
	}
	if q.Keep != 0 {
		return badinput.Field("keep", time.Duration(q.Keep), "a committed lease cannot be kept")
	}
	return s.settle(w, r, c, sluice.Settlement{Costs: sortedCosts(q.Costs), Action: sluice.Commit})
}

// release ends a lease as if it had never been.
func (s *server) release(w http.ResponseWriter, r *http.Request, c *caller) error {
	return s.settle(w, r, c, sluice.Settlement{Action: sluice.Release})
}

func (s *server) settle(w http.ResponseWriter, r *http.Request, c *caller, to sluice.Settlement) error {
	namespace, err := s.namespaceOf(r, c)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if !strings.HasPrefix(id, c.mark()) {
		return &forbiddenError{"the lease is not one that a key of " + c.entity + " took"}
	}
	if to.ID, err = scopedID(namespace, "id", id); err != nil {
		return err
	}
	leave, err := s.charging.enter(r.Context(), c)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.mayRaise(r, c, namespace, to.ID, to.Costs); err != nil {
		return err
	}
	d, err := s.limiter.Settle(r.Context(), to)
	if errors.Is(err, sluice.ErrLeaseClosed) {
		return fmt.Errorf("lease %q: %w", excerpt.Of(id), sluice.ErrLeaseClosed)
	}
	if err != nil {
		return err
	}
	if c.own {
		if err := s.markUnannounced(r, c, namespace, d.Demands); err != nil {
			return err
		}
	}
	writeSettled(w, &d, id, c.own)
	return nil
}
