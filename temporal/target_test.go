package temporal_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/temporal"
)

// post calls a target as a plan does.
func post(t *testing.T, to http.Handler, event, body, secret string, at time.Time) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	seconds := strconv.FormatInt(at.Unix(), 10)
	r.Header.Set("Webhook-Id", event)
	r.Header.Set("Webhook-Timestamp", seconds)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", event, seconds, body)
	r.Header.Set("Webhook-Signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w
}

func TestATargetStartsAWorkflowOnce(t *testing.T) {
	b := open(t, second, nil)
	b.work(t)
	now, event := time.Now(), name(t, "a")
	target, err := temporal.Target(b.config, "old", "whsec_"+base64.StdEncoding.EncodeToString([]byte("new")))
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for i, secret := range []string{"old", "new", "new"} {
		w := post(t, target, event, `{"amount": 12}`, secret, now)
		var answer struct {
			Workflow, Run string
			Existing      bool
		}
		if err := json.NewDecoder(w.Body).Decode(&answer); err != nil || w.Code != http.StatusOK || answer.Workflow != event || answer.Existing != (i > 0) {
			t.Fatalf("%v: %d %+v", err, w.Code, answer)
		}
		runs = append(runs, answer.Run)
		if i == 1 {
			b.ran(t, event) // and again after it has ended
		}
	}
	if runs[0] == "" || runs[1] != runs[0] || runs[2] != runs[0] {
		t.Errorf("runs %v", runs)
	}
	if ran := b.ran(t, event); len(ran) != 1 || ran[0].payload != `{"amount":12}` {
		t.Errorf("%+v", ran)
	}
	if w := post(t, target, event+"/empty", "", "old", now); w.Code != http.StatusOK {
		t.Errorf("without a payload: %d %s", w.Code, w.Body)
	}

	for what, want := range map[string]struct {
		code  int
		reply *httptest.ResponseRecorder
	}{
		"wrong secret": {http.StatusUnauthorized, post(t, target, event, "1", "other", now)},
		"too old":      {http.StatusUnauthorized, post(t, target, event, "1", "old", now.Add(-6*time.Minute))},
		"too new":      {http.StatusUnauthorized, post(t, target, event, "1", "old", now.Add(6*time.Minute))},
		"no event":     {http.StatusBadRequest, post(t, target, "", "1", "old", now)},
		"long event":   {http.StatusBadRequest, post(t, target, strings.Repeat("e", 256), "1", "old", now)},
		"no JSON":      {http.StatusBadRequest, post(t, target, event, "{", "old", now)},
		"too large":    {http.StatusRequestEntityTooLarge, post(t, target, event, string(bytes.Repeat([]byte("1"), 65537)), "old", now)},
	} {
		if want.reply.Code != want.code {
			t.Errorf("%s: %d %s", what, want.reply.Code, want.reply.Body)
		}
	}
	w := httptest.NewRecorder()
	target.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
	for _, secret := range []string{"", "whsec_", "whsec_!"} {
		if _, err := temporal.Target(b.config, secret); err == nil {
			t.Errorf("secret %q is accepted", secret)
		}
	}
}
