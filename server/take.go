package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-go/sluice"
)

// maxBody is the largest request that is read, in bytes.
const maxBody = 64 << 10

// takeRequest is the body of a take. Cost and limits are read in a second
// step, so that a mistake in them is reported with the field's name.
type takeRequest struct {
	Entity   string            `json:"entity"`
	Resource string            `json:"resource"`
	Cost     json.RawMessage   `json:"cost"`
	Limits   map[string]string `json:"limits"`
	Peek     bool              `json:"peek"`
}

// takeAnswer is the body of every decision, allowed or refused.
type takeAnswer struct {
	Allowed bool `json:"allowed"`
	wait
	Limit     string        `json:"limit"` // the name of the one that decided
	Remaining sluice.Tokens `json:"remaining"`
	Source    string        `json:"source"`
	Results   []limitAnswer `json:"results"`
}

type limitAnswer struct {
	Name string       `json:"name"`
	Rule sluice.Limit `json:"rule"`
	From string       `json:"from"`
	Fits bool         `json:"fits"`
	wait
	Remaining    sluice.Tokens `json:"remaining"`
	ResetAfterMs int64         `json:"resetAfterMs"`
}

// wait tells "not yet" from "never", for which there is no number.
type wait struct {
	RetryAfterMs *int64 `json:"retryAfterMs"`
	Never        bool   `json:"never"`
}

func waitFor(d time.Duration) wait {
	if d == sluice.Never {
		return wait{Never: true}
	}
	ms := ceil(d, time.Millisecond)
	return wait{RetryAfterMs: &ms}
}

// ceil is d in whole units, rounded up: who comes back then is not too early.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

type namedLimit struct {
	name  string
	limit sluice.Limit
	level sluice.Level
}

func (s *server) take(w http.ResponseWriter, r *http.Request) {
	request, err := readTake(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	take, err := s.plan(request)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	var d sluice.Decision
	if err := s.limiter.Decide(r.Context(), take, &d); err != nil {
		s.refuse(w, r, err)
		return
	}
	writeDecision(w, &d)
}

func readTake(body io.Reader) (*takeRequest, error) {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	request := new(takeRequest)
	if err := decoder.Decode(request); err != nil {
		return nil, badBody(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		if tooLarge(err) {
			return nil, err
		}
		return nil, fieldError("body", "more than one value", "must be one JSON object")
	}
	return request, nil
}

// plan is the take that a request asks for.
func (s *server) plan(request *takeRequest) (*sluice.Take, error) {
	if request.Entity == "" {
		return nil, fieldError("entity", `""`, "must say who is taking")
	}
	for _, part := range [...]struct{ field, value string }{
		{"entity", request.Entity}, {"resource", request.Resource},
	} {
		if len(part.value) > sluice.MaxKeyPart {
			return nil, fieldError(part.field, clip(part.value), "must be at most 255 bytes long")
		}
	}
	cost, err := readCost(request.Cost)
	if err != nil {
		return nil, err
	}
	limits := s.limits
	if request.Limits != nil {
		if limits, err = readLimits(request.Limits, request.Peek); err != nil {
			return nil, err
		}
	}
	take := &sluice.Take{Peek: request.Peek, Demands: make([]sluice.Demand, len(limits))}
	for i, l := range limits {
		take.Demands[i] = sluice.Demand{
			Key:   sluice.Key{Entity: request.Entity, Resource: request.Resource, Limit: l.name},
			Limit: l.limit,
			Cost:  cost,
			Level: l.level,
		}
	}
	return take, nil
}

// readCost reads an amount of tokens. No cost means one token; an explicit 0
// is more likely a mistake than a wish to pay one.
func readCost(raw json.RawMessage) (sluice.Tokens, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return sluice.Token, nil
	}
	var cost sluice.Tokens
	if err := cost.UnmarshalJSON(raw); err != nil {
		return 0, fieldError("cost", clip(string(raw)), err.Error())
	}
	if cost <= 0 {
		return 0, fieldError("cost", cost, "must be above 0; leave it out for one token")
	}
	return cost, nil
}

// readLimits reads the limits that a take brings, in order of their names.
func readLimits(limits map[string]string, peek bool) ([]namedLimit, error) {
	if len(limits) == 0 || len(limits) > sluice.MaxDemands {
		return nil, fieldError("limits", len(limits), fmt.Sprintf("must be 1 to %d; leave them out for the server's own", sluice.MaxDemands))
	}
	named := make([]namedLimit, 0, len(limits))
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		field := "limits." + clip(name)
		if name == "" || len(name) > sluice.MaxKeyPart {
			return nil, fieldError(field, clip(limits[name]), "a limit needs a name of 1 to 255 bytes")
		}
		limit, err := sluice.Parse(limits[name])
		if err != nil {
			return nil, fieldError(field, clip(limits[name]), err.Error())
		}
		if limit.Algorithm == sluice.Concurrency && !peek {
			return nil, fieldError(field, limit, "concurrency needs a lease, which a take does not give")
		}
		named = append(named, namedLimit{name, limit, sluice.LevelCall})
	}
	return named, nil
}

func writeDecision(w http.ResponseWriter, d *sluice.Decision) {
	demand, result := d.Deciding()
	answer := takeAnswer{
		Allowed:   d.Allowed,
		wait:      waitFor(d.RetryAfter),
		Limit:     demand.Key.Limit,
		Remaining: result.Remaining,
		Source:    d.Source.String(),
		Results:   make([]limitAnswer, len(d.Results)),
	}
	for i, r := range d.Results {
		answer.Results[i] = limitAnswer{
			Name:         d.Demands[i].Key.Limit,
			Rule:         d.Demands[i].Limit,
			From:         d.Demands[i].Level.String(),
			Fits:         r.Fits,
			wait:         waitFor(r.RetryAfter),
			Remaining:    r.Remaining,
			ResetAfterMs: ceil(r.ResetAfter, time.Millisecond),
		}
	}
	status := http.StatusOK
	if !d.Allowed {
		status = http.StatusTooManyRequests
		if d.RetryAfter != sluice.Never {
			w.Header().Set("Retry-After", strconv.FormatInt(max(ceil(d.RetryAfter, time.Second), 1), 10))
		}
	}
	writeJSON(w, status, "application/json", answer)
}
