package target_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/target"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

const key = "0123456789abcdef0123456789abcdef"

// rig is a scheduler with a runner.
type rig struct {
	*schedule.Scheduler
	runner *target.Runner
}

func start(t *testing.T, allow ...string) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "slots.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store := slotstore.New(db)
	t.Cleanup(func() { store.Close() })
	log := slog.New(slog.DiscardHandler)
	slots, err := schedule.New(schedule.Config{Store: store, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	keys, err := target.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := target.New(target.Config{Slots: slots, Limiter: sluice.New(buckets), Keys: keys, Allow: allow, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); runner.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return &rig{slots, runner}
}

// plan sets the target of a plan whose events are due at once.
func (r *rig) plan(t *testing.T, name string, to *schedule.Target) {
	t.Helper()
	if to != nil {
		var err error
		if to, err = r.runner.Seal(r.Namespace(), name, to); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.SetPlan(t.Context(), schedule.Plan{Name: name, MaxPerWindow: 1000, WindowSize: time.Millisecond, Target: to}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) assign(t *testing.T, plan string, events ...string) {
	t.Helper()
	for _, event := range events {
		if _, err := r.Assign(t.Context(), schedule.Request{Plan: plan, Event: event, Payload: []byte(`{"event":"` + event + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

// until waits for an event to have a state.
func (r *rig) until(t *testing.T, event string, want schedule.State) schedule.Slot {
	t.Helper()
	for {
		s, err := r.Slot(t.Context(), event)
		if err != nil {
			t.Fatalf("waiting for %s to be %s: %v", event, want, err)
		}
		if s.State == want {
			return s
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// receiver answers as the name of an event says.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string][]*http.Request
	body  map[string]string
}

func receive(t *testing.T) *receiver {
	t.Helper()
	rc := &receiver{calls: map[string][]*http.Request{}, body: map[string]string{}}
	rc.Server = httptest.NewServer(rc)
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) host() string {
	u, err := url.Parse(rc.URL)
	if err != nil {
		panic(err)
	}
	return u.Host
}

func (rc *receiver) seen(event string) []*http.Request {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.calls[event]
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	event := r.Header.Get("Webhook-Id")
	rc.mu.Lock()
	rc.calls[event] = append(rc.calls[event], r)
	rc.body[event] = string(body)
	n := len(rc.calls[event])
	rc.mu.Unlock()
	how, _, _ := strings.Cut(event, "-")
	switch {
	case how == "drops" && n == 1: // after it was executed
		panic(http.ErrAbortHandler)
	case how == "hangs" && n == 1:
		<-r.Context().Done()
	case how == "moved":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case how == "busy" && n < 3:
		w.WriteHeader(http.StatusTooManyRequests)
	case how == "breaks" && n == 1:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	case how == "refuses":
		w.WriteHeader(http.StatusBadRequest)
	case how == "teapot":
		w.WriteHeader(http.StatusTeapot)
	}
}

// quick is a target that is tried again soon.
func quick(url string) *schedule.Target {
	return &schedule.Target{
		URL: url, Rate: sluice.Per(1000, time.Second), Timeout: schedule.Duration(time.Second),
		Backoff: schedule.Duration(time.Millisecond), MaxBackoff: schedule.Duration(time.Millisecond), Success: []int{200, 418},
	}
}

// TestAnEventIsSentOnceOrUnknown: sent again is only what was not executed, or may
// be repeated.
func TestAnEventIsSentOnceOrUnknown(t *testing.T) {
	rc := receive(t)
	r := start(t, rc.host())
	safe := quick(rc.URL)
	safe.Repeat = schedule.RepeatSafe
	r.plan(t, "once", quick(rc.URL))
	r.plan(t, "safe", safe)
	cases := []struct {
		how        string
		once, safe schedule.State
		sent, most int // once, and if it may be repeated
	}{
		{"fine", schedule.Done, schedule.Done, 1, 1},
		{"teapot", schedule.Done, schedule.Done, 1, 1},
		{"busy", schedule.Done, schedule.Done, 3, 3},
		{"refuses", schedule.Failed, schedule.Failed, 1, 1},
		{"moved", schedule.Failed, schedule.Failed, 1, 1},
		{"drops", schedule.Unknown, schedule.Done, 1, 2},
		{"breaks", schedule.Unknown, schedule.Done, 1, 2},
		{"hangs", schedule.Unknown, schedule.Done, 1, 2},
	}
	for _, c := range cases {
		r.assign(t, "once", c.how+"-once")
		r.assign(t, "safe", c.how+"-safe")
	}
	for _, c := range cases {
		for plan, want := range map[string]schedule.State{"once": c.once, "safe": c.safe} {
			event, sent := c.how+"-"+plan, c.sent
			if plan == "safe" {
				sent = c.most
			}
			r.until(t, event, want)
			calls := rc.seen(event)
			if len(calls) != sent {
				t.Errorf("%s: sent %d times, want %d", event, len(calls), sent)
			}
			for _, call := range calls {
				if k := call.Header.Get("Idempotency-Key"); k != calls[0].Header.Get("Idempotency-Key") || len(k) != 34 {
					t.Errorf("%s has key %s", event, k)
				}
			}
			if rc.body[event] != `{"event":"`+event+`"}` || calls[0].Method != "POST" || calls[0].Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s with %s, %v", event, calls[0].Method, rc.body[event], calls[0].Header)
			}
		}
	}
	if rc.seen("fine-once")[0].Header.Get("Idempotency-Key") == rc.seen("fine-safe")[0].Header.Get("Idempotency-Key") {
		t.Error("two events have one key")
	}
	if s := r.runner.Stats(); s.Targets != 2 || s.Calls["unknown"] != 6 || s.Calls["not_run"] != 4 || s.Calls["refused"] != 4 || s.Calls["done"] != 9 {
		t.Errorf("%+v", s)
	}
	page, err := r.InDoubt(t.Context(), "once", schedule.Position{}, 0)
	if err != nil || len(page.Slots) != 3 {
		t.Fatalf("%v: %+v", err, page)
	}
	if _, err := r.Requeue(t.Context(), "drops-once", "it did not arrive"); err != nil {
		t.Fatal(err)
	}
	r.until(t, "drops-once", schedule.Done)
	if err := r.Complete(t.Context(), "hangs-once", 1, nil); err != nil {
		t.Fatal(err)
	}
	r.until(t, "hangs-once", schedule.Done)
	if n := len(rc.seen("hangs-once")); n != 1 {
		t.Errorf("sent %d times though it was settled", n)
	}
}

// TestNothingIsLostWhileNobodyListens: what could not be sent waits.
func TestNothingIsLostWhileNobodyListens(t *testing.T) {
	rc := receive(t)
	closed := receive(t)
	closed.Close()
	r := start(t, rc.host(), closed.host())
	down := quick(closed.URL)
	down.Attempts = 1000
	r.plan(t, "p", down)
	r.assign(t, "p", "a", "b", "c")
	for r.runner.Stats().Calls["not_run"] < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	r.plan(t, "p", quick(rc.URL))
	for _, event := range []string{"a", "b", "c"} {
		r.until(t, event, schedule.Done)
		if n := len(rc.seen(event)); n != 1 {
			t.Errorf("%s was sent %d times", event, n)
		}
	}
}

// TestPrivateAddressesAreNotCalled, whatever name leads to them.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	rc := receive(t)
	name := strings.Replace(rc.URL, "127.0.0.1", "localhost", 1)
	for _, allow := range []string{"127.0.0.1", "localhost:1", "example.com"} {
		r := start(t, allow)
		if _, err := r.runner.Seal("", "p", quick(name)); err == nil || !strings.Contains(err.Error(), "--target-allow localhost:") {
			t.Errorf("%v", err)
		}
		// As another server would have stored it.
		if _, err := r.SetPlan(t.Context(), schedule.Plan{Name: "p", WindowSize: time.Millisecond, Target: quick(name)}); err != nil {
			t.Fatal(err)
		}
		r.assign(t, "p", "a")
		for r.runner.Stats().Calls["not_run"] < 2 {
			time.Sleep(5 * time.Millisecond)
		}
		if len(rc.seen("a")) != 0 {
			t.Fatal("it was called")
		}
		entries, err := r.Audit(t.Context(), schedule.AuditQuery{Event: "a"})
		if err != nil || !strings.Contains(fmt.Sprint(entries), "the address is not public") {
			t.Errorf("%v: %v", err, entries)
		}
	}
	for _, allow := range []string{"localhost", "LOCALHOST:" + rc.host()[len("127.0.0.1:"):]} {
		r := start(t, allow)
		r.plan(t, "p", quick(name))
		r.assign(t, "p", "a")
		r.until(t, "a", schedule.Done)
	}
	for _, private := range []string{"http://10.0.0.1/", "http://[::1]:80/", "https://169.254.169.254/latest", "http://[::ffff:127.0.0.1]/"} {
		if _, err := start(t, "localhost").runner.Seal("", "p", &schedule.Target{URL: private}); err == nil {
			t.Errorf("%s was accepted", private)
		}
	}
}

// TestServersFollowPlans as they get, change and lose their target, pause and
// resume.
func TestServersFollowPlans(t *testing.T) {
	one, two := receive(t), receive(t)
	r := start(t, "127.0.0.1")
	r.plan(t, "p", nil)
	r.assign(t, "p", "a")
	r.plan(t, "p", quick(one.URL))
	r.until(t, "a", schedule.Done)
	r.plan(t, "p", quick(two.URL))
	for r.runner.Stats().Targets != 1 || len(two.seen("b")) == 0 {
		r.assign(t, "p", "b")
		time.Sleep(5 * time.Millisecond)
		if len(one.seen("b")) > 0 { // it was on its way
			break
		}
	}
	if err := r.Pause(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	r.assign(t, "p", "c")
	r.plan(t, "q", quick(two.URL))
	r.assign(t, "q", "d")
	r.until(t, "d", schedule.Done)
	if s := r.until(t, "c", schedule.Waiting); s.Attempts != 0 {
		t.Errorf("%+v, and the plan is paused", s)
	}
	if err := r.Resume(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	r.until(t, "c", schedule.Done)
	r.plan(t, "p", nil)
	r.plan(t, "q", nil)
	for r.runner.Stats().Targets != 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if len(one.seen("a")) != 1 || len(one.seen("b"))+len(two.seen("b")) != 1 || len(two.seen("c")) != 1 || len(two.seen("d")) != 1 {
		t.Errorf("sent %v and %v", one.calls, two.calls)
	}
}

// TestTargetsOfAllNamespacesAreCalled has plans of one name in two namespaces.
func TestTargetsOfAllNamespacesAreCalled(t *testing.T) {
	here, there := receive(t), receive(t)
	r := start(t, here.host(), there.host())
	slots, err := r.In("acme")
	if err != nil {
		t.Fatal(err)
	}
	acme := &rig{slots, r.runner}
	r.plan(t, "mail", quick(here.URL))
	acme.plan(t, "mail", quick(there.URL))
	r.assign(t, "mail", "ok-1")
	acme.assign(t, "mail", "ok-1", "ok-2")
	r.until(t, "ok-1", schedule.Done)
	acme.until(t, "ok-1", schedule.Done)
	acme.until(t, "ok-2", schedule.Done)
	if a, b := len(here.seen("ok-1")), len(there.seen("ok-1")); a != 1 || b != 1 {
		t.Errorf("%d calls here, %d there", a, b)
	}
	if here.seen("ok-1")[0].Header.Get("Idempotency-Key") == there.seen("ok-1")[0].Header.Get("Idempotency-Key") {
		t.Error("events of two namespaces have the same key")
	}
}

func sign(secret, id, at, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// TestSecretsAreSealedAndRotated: both sign while both are valid.
func TestSecretsAreSealedAndRotated(t *testing.T) {
	rc := receive(t)
	r := start(t, "127.0.0.1")
	to := quick(rc.URL)
	to.Headers = map[string]string{"authorization": "Bearer abc"}
	to.Secrets = []schedule.TargetSecret{
		{Secret: "new secret"},
		{Secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte("old secret")), Until: time.Now().Add(time.Hour)},
		{Secret: "older secret", Until: time.Now().Add(-time.Second)},
	}
	r.plan(t, "p", to)
	p, err := r.Plan(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", *p.Target); strings.Contains(text, "Bearer") || strings.Contains(text, " secret") {
		t.Errorf("stored is %s", text)
	}
	r.plan(t, "p", p.Target) // as it was read
	r.assign(t, "p", "a")
	r.until(t, "a", schedule.Done)
	h := rc.seen("a")[0].Header
	at, body := h.Get("Webhook-Timestamp"), `{"event":"a"}`
	if want := sign("new secret", "a", at, body) + " " + sign("old secret", "a", at, body); h.Get("Webhook-Signature") != want {
		t.Errorf("signed %q, want %q", h.Get("Webhook-Signature"), want)
	}
	if h.Get("Authorization") != "Bearer abc" {
		t.Errorf("headers %v", h)
	}
	for change, moved := range map[string]func(*schedule.Target) (namespace, plan string){
		"another plan":      func(*schedule.Target) (string, string) { return "", "q" },
		"another namespace": func(*schedule.Target) (string, string) { return "n", "p" },
		"another host":      func(t *schedule.Target) (string, string) { t.URL = "https://example.com/"; return "", "p" },
	} {
		other := *p.Target
		namespace, plan := moved(&other)
		if _, err := r.runner.Seal(namespace, plan, &other); err == nil {
			t.Errorf("for %s the secrets were opened", change)
		}
	}
}

func TestKeysAreRotated(t *testing.T) {
	plain := &schedule.Target{URL: "https://example.com/a", Secrets: []schedule.TargetSecret{{Secret: "s"}}}
	keys := func(secrets ...string) *target.Keys {
		k, err := target.NewKeys(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	other := strings.ToUpper(key)
	sealed, err := keys(key).Seal("", "p", plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys(other).Seal("", "p", sealed); err == nil {
		t.Error("opened without its key")
	}
	again, err := keys(other, key).Seal("", "p", sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys(other).Seal("", "p", again); err != nil {
		t.Errorf("not sealed by the first key: %v", err)
	}
	var none *target.Keys
	if _, err := none.Seal("", "p", plain); err == nil || !strings.Contains(err.Error(), "--seal-key") {
		t.Errorf("sealed without a key: %v", err)
	}
	for _, bad := range []*schedule.Target{
		{URL: "https://a", Secrets: []schedule.TargetSecret{{Secret: ""}}}, {URL: "https://a", Secrets: []schedule.TargetSecret{{Secret: "whsec_!"}}},
		{URL: "https://a", Headers: map[string]string{"A": "b\nc"}},
	} {
		if _, err := keys(key).Seal("", "p", bad); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
	for _, secrets := range [][]string{nil, {"short"}, {key, "short"}} {
		if _, err := target.NewKeys(secrets...); err == nil {
			t.Errorf("keys of %q", secrets)
		}
	}
}

// TestWithoutItsKeyATargetIsNotCalled: the events wait for a server that has it.
func TestWithoutItsKeyATargetIsNotCalled(t *testing.T) {
	r := start(t, "127.0.0.1")
	to := quick("http://127.0.0.1:1/")
	to.Secrets = []schedule.TargetSecret{{Secret: schedule.Sealed + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	if _, err := r.SetPlan(t.Context(), schedule.Plan{Name: "p", Target: to}); err != nil {
		t.Fatal(err)
	}
	for r.runner.Stats().Unusable != 1 {
		time.Sleep(5 * time.Millisecond)
	}
	r.plan(t, "p", nil)
	for r.runner.Stats().Unusable != 0 {
		time.Sleep(5 * time.Millisecond)
	}
}
