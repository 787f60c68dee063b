package temporal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
	"go.temporal.io/api/serviceerror"
)

// signedWithin is how old a signature may be, and how far in the future.
const signedWithin = 5 * time.Minute

// Target returns a handler for the HTTP target of a plan. A POST names its
// event in Webhook-Id and has the payload as its body; the event's workflow is
// started at once, if it was never started. The answer is 200 with the ids of
// the workflow and of its run, also if it was there already, so a call may be
// repeated. It is 503 if Temporal did not start it, or nobody knows.
//
// Calls must be signed by one of the secrets, as Standard Webhooks says; there
// are two while a secret is replaced. Without secrets everybody may call.
func Target(c Config, secrets ...string) (http.Handler, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &target{config: c}
	for _, secret := range secrets {
		key := []byte(secret)
		if text, ok := strings.CutPrefix(secret, "whsec_"); ok {
			if key, err = base64.StdEncoding.DecodeString(text); err != nil {
				return nil, &sluice.FieldError{Field: "secret", Value: "whsec_…", Reason: "must be base64 after whsec_"}
			}
		}
		if len(key) == 0 {
			return nil, &sluice.FieldError{Field: "secret", Reason: "must not be empty"}
		}
		t.keys = append(t.keys, key)
	}
	return t, nil
}

type target struct {
	config Config
	keys   [][]byte
}

// ServeHTTP starts the workflow of an event.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, schedule.MaxPayload))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, fmt.Sprintf("the payload is longer than %d bytes", schedule.MaxPayload), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the payload could not be read", http.StatusBadRequest)
		return
	}
	if !t.signed(r, body, time.Now()) {
		http.Error(w, "the signature is missing, wrong or too old", http.StatusUnauthorized)
		return
	}
	event := r.Header.Get("Webhook-Id") // which is signed
	switch {
	case event == "" || len(event) > schedule.MaxEvent:
		http.Error(w, fmt.Sprintf("Webhook-Id must be the event, of 1 to %d bytes", schedule.MaxEvent), http.StatusBadRequest)
		return
	case len(body) > 0 && !json.Valid(body):
		http.Error(w, "the payload must be JSON", http.StatusBadRequest)
		return
	}
	answer := struct {
		Workflow string `json:"workflow"`
		Run      string `json:"run"`
		Existing bool   `json:"existing,omitempty"` // it was started before
	}{Workflow: event}
	run, err := t.config.execute(r.Context(), event, bytes.TrimSpace(body), 0)
	started, existing := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	switch {
	case err == nil:
		answer.Run = run.GetRunID()
	case existing:
		answer.Run, answer.Existing = started.RunId, true
	default:
		status := http.StatusServiceUnavailable
		if _, bad := errors.AsType[*serviceerror.InvalidArgument](err); bad {
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the caller is gone, and may repeat it
}

// signed reports whether one of the keys has signed a call, not long ago.
func (t *target) signed(r *http.Request, body []byte, now time.Time) bool {
	if len(t.keys) == 0 {
		return true
	}
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > signedWithin {
		return false
	}
	for text := range strings.FieldsSeq(r.Header.Get("Webhook-Signature")) {
		given, ok := strings.CutPrefix(text, "v1,")
		signature, err := base64.StdEncoding.DecodeString(given)
		if !ok || err != nil {
			continue
		}
		for _, key := range t.keys {
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "%s.%s.%s", id, at, body) //nolint:errcheck // it never fails
			if hmac.Equal(signature, mac.Sum(nil)) {
				return true
			}
		}
	}
	return false
}
