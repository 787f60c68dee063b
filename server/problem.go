package server

import (
	"bytes"
	"cmp"
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
	"github.com/sluice-go/sluice/internal/excerpt"
	"github.com/sluice-go/sluice/internal/requestid"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/schedule"
)

// problem is an error as RFC 9457 writes it. Code is one word that stays the
// same; Field is the part of the request that is wrong, if it is one.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	writeJSON(w, p.Status, "application/problem+json", p)
}

// MarshalJSON writes p with its title.
func (p problem) MarshalJSON() ([]byte, error) {
	type plain problem
	p.Title = cmp.Or(http.StatusText(p.Status), p.Code)
	return json.Marshal(plain(p))
}

var errNoCatalog = errors.New("this server has no catalog")

// errKeyUnusable is the answer to rotating a key that does not work any more.
var errKeyUnusable = errors.New("only a valid key can be rotated")

// asSent is a field as the caller has sent it. Inside, some names say what
// kind of thing they belong to.
func asSent(field string) string {
	for _, inside := range [...]string{"entity.", "key.", "override.", "tier.", "lease.", "take.", "scope.", "idempotency.", "query.", "usage.", "by."} {
		if rest, ok := strings.CutPrefix(field, inside); ok {
			return rest
		}
	}
	return field
}

// referenceError says that something was to refer to what is not there. It is
// not the thing itself that was not found.
type referenceError struct{ error }

func isNoLimit(err error) bool {
	var none *noLimitError
	return errors.As(err, &none)
}

func isNotFound(err error) bool { return errors.Is(err, catalog.ErrNotFound) }
func isExists(err error) bool   { return errors.Is(err, catalog.ErrExists) }

// refuse answers an error.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r, err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	}
	var refused *sluice.RefusedError
	if errors.As(err, &refused) {
		w.Header().Set("Retry-After", strconv.FormatInt(ceil(refused.RetryAfter, time.Second), 10))
	} else if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	p.write(w)
}

// known are errors with a status of their own.
var known = []struct {
	err    error
	status int
	code   string
}{
	{errNoCredential, http.StatusUnauthorized, "no_credential"},
	{catalog.ErrKey, http.StatusUnauthorized, "bad_credential"},
	{catalog.ErrNotFound, http.StatusNotFound, "not_found"},
	{catalog.ErrExists, http.StatusConflict, "exists"},
	{catalog.ErrConflict, http.StatusPreconditionFailed, "changed"},
	{catalog.ErrHasChildren, http.StatusConflict, "has_children"},
	{catalog.ErrInUse, http.StatusConflict, "in_use"},
	{errKeyUnusable, http.StatusConflict, "key_unusable"},
	{sluice.ErrLeaseClosed, http.StatusGone, "lease_closed"},
	{sluice.ErrRequestMismatch, http.StatusUnprocessableEntity, "key_reused"},
	{schedule.ErrNotFound, http.StatusNotFound, "not_found"},
	{schedule.ErrConflict, http.StatusConflict, "conflict"},
	{schedule.ErrClaimLost, http.StatusConflict, "claim_lost"},
	{idempotency.ErrNotFound, http.StatusNotFound, "not_found"},
	{idempotency.ErrLost, http.StatusConflict, "claim_lost"},
	{idempotency.ErrNotCrashed, http.StatusConflict, "not_crashed"},
	{idempotency.ErrFull, http.StatusInsufficientStorage, "full"},
	{errNoSlots, http.StatusNotImplemented, "no_slots"},
	{errNoReplays, http.StatusNotImplemented, "no_replays"},
	{errNoCatalog, http.StatusNotImplemented, "no_catalog"},
	{errNoGate, http.StatusNotImplemented, "no_policy"},
	{errors.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
}

// problem is the one place where errors become statuses. What is not the
// caller's business goes to the log alone.
func (s *server) problem(r *http.Request, err error) problem {
	var field *sluice.FieldError
	var forbidden *forbiddenError
	var mistakes policy.Mistakes
	var exhausted *schedule.ExhaustedError
	var reference *referenceError
	var refused *sluice.RefusedError
	var debt *debtError
	switch {
	case tooLarge(err):
		return problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf("body: must be at most %d bytes long", mostBytes(err)), Field: "body"}
	case errors.As(err, &field):
		return problem{Status: http.StatusBadRequest, Code: "invalid", Detail: err.Error(), Field: asSent(field.Field)}
	case errors.As(err, &mistakes):
		return problem{Status: http.StatusBadRequest, Code: "invalid", Detail: err.Error(), Field: "body"}
	case errors.As(err, &debt):
		return problem{Status: http.StatusTooManyRequests, Code: "in_debt", Detail: err.Error()}
	case errors.As(err, &refused):
		return problem{Status: http.StatusTooManyRequests, Code: "refused", Detail: fmt.Sprintf("too many invalid credentials: try again in %s", refused.RetryAfter.Round(time.Millisecond))}
	case errors.As(err, &exhausted):
		return problem{Status: http.StatusServiceUnavailable, Code: "exhausted", Detail: err.Error()}
	case errors.As(err, &forbidden):
		return problem{Status: http.StatusForbidden, Code: "forbidden", Detail: err.Error()}
	case isNoLimit(err):
		return problem{Status: http.StatusUnprocessableEntity, Code: "no_limit", Detail: err.Error()}
	case errors.As(err, &reference):
		return problem{Status: http.StatusUnprocessableEntity, Code: "no_such_reference", Detail: err.Error()}
	case r.Context().Err() != nil:
		return problem{Status: 499, Code: "gone", Detail: "the caller closed the connection"}
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return problem{Status: k.status, Code: k.code, Detail: err.Error()}
		}
	}
	s.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "request", excerpt.Of(r.Header.Get(requestid.Header)), "error", err)
	switch {
	case errors.Is(err, sluice.ErrUnknown):
		return problem{Status: http.StatusServiceUnavailable, Code: "unknown", Detail: "the store gave no answer: the operation may or may not have happened"}
	case errors.Is(err, sluice.ErrUnavailable), errors.Is(err, sluice.ErrClosed):
		return problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Detail: "the store cannot be reached: nothing was changed"}
	}
	return problem{Status: http.StatusInternalServerError, Code: "internal", Detail: "see the server log"}
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write(out.Bytes()) //nolint:errcheck // the client is gone
}
