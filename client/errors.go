package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/schedule"
)

// Error is the server's answer to a request that it did not carry out. Where
// the library has an error for it, errors.Is finds that:
//
//	errors.Is(err, catalog.ErrNotFound)
//	errors.Is(err, sluice.ErrLeaseClosed)
type Error struct {
	Status int    // of HTTP
	Code   string // one word that stays the same, such as "not_found"
	Detail string // for people
	Field  string // the part of the request that is wrong, if it is one

	// RetryAfter is when the server wants to be asked again; 0 if it does not
	// say.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Detail
}

// meanings are what codes mean in the library.
var meanings = map[string][]error{
	"not_found":      {catalog.ErrNotFound, schedule.ErrNotFound, idempotency.ErrNotFound},
	"exists":         {catalog.ErrExists},
	"changed":        {catalog.ErrConflict},
	"has_children":   {catalog.ErrHasChildren},
	"in_use":         {catalog.ErrInUse},
	"bad_credential": {catalog.ErrKey},
	"lease_closed":   {sluice.ErrLeaseClosed},
	"key_reused":     {sluice.ErrRequestMismatch},
	"unavailable":    {sluice.ErrUnavailable},
	"unknown":        {sluice.ErrUnknown},
	"conflict":       {schedule.ErrConflict},
	"claim_lost":     {schedule.ErrClaimLost, idempotency.ErrLost},
	"not_crashed":    {idempotency.ErrNotCrashed},
	"full":           {idempotency.ErrFull, sluice.ErrUnavailable},
}

// Is reports whether target is an error of the library that means the same.
func (e *Error) Is(target error) bool {
	for _, meaning := range meanings[e.Code] {
		if meaning == target {
			return true
		}
	}
	// Something between here and there has broken off: who knows what happened.
	return e.Code == "" && e.Status >= 500 && target == sluice.ErrUnknown
}

// problem is the error of an answer.
func problem(r *http.Response, text []byte) error {
	e := &Error{Status: r.StatusCode}
	if seconds, err := strconv.ParseInt(r.Header.Get("Retry-After"), 10, 32); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/problem+json") {
		var body struct{ Code, Detail, Field string }
		if json.Unmarshal(text, &body) == nil {
			e.Code, e.Detail, e.Field = body.Code, body.Detail, body.Field
		}
	}
	return e
}
