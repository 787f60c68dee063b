package idempotency

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// ReplayHeader is on every replay.
const ReplayHeader = "Idempotent-Replay"

// StoreHeader is on responses of requests that ran although the store could
// not be asked, or could not be told of the result.
const StoreHeader = "Idempotent-Store"

// OutcomeHeader is "unknown" on the answer to a request of which nobody knows
// whether it took effect, and on those to its repeats.
const OutcomeHeader = "Idempotent-Outcome"

// Problem is an error as clients get it: application/problem+json.
type Problem struct {
	Type       string `json:"type"` // a link to what it means
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       string `json:"code"`
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds
}

// The codes of problems. Each is an anchor of the documentation, too.
const (
	CodeMissing     = "ERR_IDEMPOTENCY_KEY_MISSING"
	CodeInvalid     = "ERR_IDEMPOTENCY_KEY_INVALID"
	CodeIdentity    = "ERR_IDEMPOTENCY_IDENTITY_MISSING"
	CodeReused      = "ERR_IDEMPOTENCY_KEY_REUSED"
	CodeRunning     = "ERR_IDEMPOTENCY_IN_PROGRESS"
	CodeUnknown     = "ERR_IDEMPOTENCY_OUTCOME_UNKNOWN"
	CodeNotKept     = "ERR_IDEMPOTENCY_RESPONSE_NOT_KEPT"
	CodeUnavailable = "ERR_IDEMPOTENCY_UNAVAILABLE"
	CodeBody        = "ERR_IDEMPOTENCY_BODY"
	CodeInternal    = "ERR_IDEMPOTENCY_INTERNAL"
)

// problems are titles and statuses, with the anchors of the documentation.
var problems = map[string]struct {
	status        int
	title, anchor string
}{
	CodeMissing:     {http.StatusBadRequest, "Idempotency-Key is missing", "key-missing"},
	CodeInvalid:     {http.StatusBadRequest, "Idempotency-Key is not valid", "key-invalid"},
	CodeIdentity:    {http.StatusUnauthorized, "Whose Idempotency-Key it is cannot be told", "identity-missing"},
	CodeReused:      {http.StatusUnprocessableEntity, "Idempotency-Key is already used", "key-reused"},
	CodeRunning:     {http.StatusConflict, "A request is outstanding for this Idempotency-Key", "in-progress"},
	CodeUnknown:     {http.StatusConflict, "The outcome of the first request is unknown", "outcome-unknown"},
	CodeNotKept:     {http.StatusConflict, "The request was completed, its response was not kept", "response-not-kept"},
	CodeUnavailable: {http.StatusServiceUnavailable, "Idempotency cannot be guaranteed at the moment", "unavailable"},
	CodeBody:        {http.StatusBadRequest, "The request's body could not be read", "body"},
	CodeInternal:    {http.StatusInternalServerError, "Idempotency is not set up correctly", "internal"},
}

// Problem is the problem of a code, for those who answer by themselves.
func (k *Keeper) Problem(code, detail string) Problem {
	p := problems[code]
	return Problem{Type: k.docs + "#" + p.anchor, Title: p.title, Status: p.status, Detail: detail, Code: code}
}

// refuse writes a problem.
func (k *Keeper) refuse(w http.ResponseWriter, p Problem) {
	body, err := json.Marshal(&p)
	if err != nil { // it is made of strings and numbers
		http.Error(w, p.Title, p.Status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Add("Link", fmt.Sprintf("<%s>; rel=\"describedby\"; type=\"text/html\"", p.Type))
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	w.Write(body) //nolint:errcheck // the client may be gone
}

// retryAfter suggests when to ask again about a run: when it has taken twice
// as long as it has so far, but not after its claim ends.
func retryAfter(a *Answer) int {
	wait := min(a.Now.Sub(a.Record.Started), a.Record.ClaimEnds.Sub(a.Now))
	return max(1, int((wait+time.Second-1)/time.Second))
}
