package idempotency_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/replaystore"
)

// receiver is a webhook's other end. It counts.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	keys     map[string]int
	bodies   []string
	answers  []int // statuses to answer with; the last one again and again
	inFlight atomic.Int64
	most     atomic.Int64  // at once
	gate     chan struct{} // if not nil, calls wait until it is closed
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	t.Helper()
	r := &receiver{keys: make(map[string]int), answers: answers}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	if n > r.most.Load() {
		r.most.Store(n)
	}
	key, _, err := idempotency.KeyOf(req.Header)
	body, bad := io.ReadAll(req.Body)
	if err := errors.Join(err, bad); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.keys[key]++
	r.bodies = append(r.bodies, string(body))
	status := r.answers[0]
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	r.mu.Unlock()
	if r.gate != nil {
		<-r.gate
	}
	w.Header().Set("Retry-After", "0")
	w.WriteHeader(status)
	io.WriteString(w, "thanks")
}

// want checks how many calls came, and that they all had one key.
func (r *receiver) want(t *testing.T, calls int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bodies) != calls || calls > 0 && len(r.keys) != 1 {
		t.Errorf("%d calls with %d keys came, want %d with one", len(r.bodies), len(r.keys), calls)
	}
	if r.most.Load() > 1 {
		t.Errorf("%d calls were under way at once", r.most.Load())
	}
}

func call(url string) idempotency.Call {
	return idempotency.Call{
		Tenant: "acme", Name: "order.created", Key: "order 17", URL: url, Body: []byte(`{"order":17}`),
		Header: http.Header{"Content-Type": {"application/json"}}, Pause: time.Millisecond, MaxPause: 5 * time.Millisecond,
	}
}

// TestRedirectsAreNotFollowed: by 302 the payload would be lost and the call taken
// for delivered, by 307 it would be sent twice.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var landed, sent atomic.Int64
		r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/landed" {
				landed.Add(1)
				return
			}
			sent.Add(1)
			http.Redirect(w, r, "/landed", status)
		}))
		d, err := idempotency.Send(t.Context(), memoryKeeper(t), call(r.URL))
		r.Close()
		if !errors.Is(err, idempotency.ErrNotDelivered) || d.Status != status || sent.Load() != 1 || landed.Load() != 0 {
			t.Errorf("%d: %+v, %v, sent %d times, followed %d times", status, d, err, sent.Load(), landed.Load())
		}
	}
}

func TestAWebhookIsSentOnce(t *testing.T) {
	r := newReceiver(t, 202)
	k := memoryKeeper(t)
	for i := range 3 {
		d, err := idempotency.Send(t.Context(), k, call(r.URL))
		if err != nil || d.Status != 202 || string(d.Body) != "thanks" || d.Tries != 1 || d.Replayed != (i > 0) || d.Key == "" {
			t.Errorf("delivery %+v, %v", d, err)
		}
	}
	r.want(t, 1)
	other := call(r.URL)
	other.Body = []byte("another")
	if _, err := idempotency.Send(t.Context(), k, other); !errors.Is(err, idempotency.ErrMismatch) {
		t.Errorf("another body: %v", err)
	}
	r.want(t, 1)
}

func TestAWebhookIsTriedAgain(t *testing.T) {
	r := newReceiver(t, 500, 429, 503, 408, 409, 200)
	k := memoryKeeper(t)
	c := call(r.URL)
	c.RepeatSafe = true
	d, err := idempotency.Send(t.Context(), k, c)
	if err != nil || d.Status != 200 || d.Tries != 6 {
		t.Errorf("delivery %+v, %v", d, err)
	}
	r.want(t, 6)
	record, response, err := k.Lookup(t.Context(), idempotency.Scope{Tenant: "acme", Method: "SEND", Route: "order.created", Key: "order 17"})
	if err != nil || record.State != idempotency.Done || response.Tries != 6 || response.Status != 200 {
		t.Errorf("record %+v, %+v, %v", record, response, err)
	}
	if s := k.Local(); s.Tries != 6 || s.Sent != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestAWebhookThatIsRefusedIsRecordedAndMayBeSentLater(t *testing.T) {
	r := newReceiver(t, 404, 429, 425, 200)
	k := memoryKeeper(t)
	s := idempotency.Scope{Tenant: "acme", Method: "SEND", Route: "order.created", Key: "order 17"}
	c := call(r.URL)
	c.Attempts = 2
	for _, want := range []struct{ status, tries int }{{404, 1}, {425, 2}} {
		d, err := idempotency.Send(t.Context(), k, c)
		if !errors.Is(err, idempotency.ErrNotDelivered) || d.Status != want.status || d.Tries != want.tries {
			t.Errorf("delivery %+v, %v", d, err)
		}
		record, response, err := k.Lookup(t.Context(), s)
		if err != nil || record.State != idempotency.Failed || response.Status != want.status {
			t.Errorf("record %+v, %+v, %v", record, response, err)
		}
	}
	if d, err := idempotency.Send(t.Context(), k, c); err != nil || d.Status != 200 {
		t.Errorf("delivery %+v, %v", d, err)
	}
	r.want(t, 4)
}

func TestAWebhookWithoutAReceiver(t *testing.T) {
	r := newReceiver(t, 200)
	r.Close()
	c := call(r.URL)
	c.Attempts = 3
	d, err := idempotency.Send(t.Context(), memoryKeeper(t), c)
	if !errors.Is(err, idempotency.ErrNotDelivered) || d.Tries != 3 || d.Status != 0 {
		t.Errorf("delivery %+v, %v", d, err)
	}
	for field, change := range map[string]func(*idempotency.Call){
		"url":      func(c *idempotency.Call) { c.URL = "ftp://x" },
		"attempts": func(c *idempotency.Call) { c.Attempts = -1 },
		"pause":    func(c *idempotency.Call) { c.Pause = -1 },
		"key":      func(c *idempotency.Call) { c.Key = "" },
	} {
		c := call(r.URL)
		change(&c)
		if _, err := idempotency.Send(t.Context(), memoryKeeper(t), c); err == nil || errors.Is(err, idempotency.ErrNotDelivered) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Several keepers on one file stand for several processes: each has its own
// claims.
func TestManySendersMakeOneCall(t *testing.T) {
	r := newReceiver(t, 429, 200)
	r.gate = make(chan struct{})
	file := filepath.Join(t.TempDir(), "sluice.db")
	var wg sync.WaitGroup
	var replayed atomic.Int64
	var keepers []*idempotency.Keeper
	for range 4 {
		db, err := sqlite.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		k := keeperOn(t, replaystore.New(db, nil))
		keepers = append(keepers, k)
		for range 5 {
			wg.Go(func() {
				d, err := idempotency.Send(context.Background(), k, call(r.URL))
				if err != nil || d.Status != 200 {
					t.Errorf("delivery %+v, %v", d, err)
				}
				if d.Replayed {
					replayed.Add(1)
				}
			})
		}
	}
	eventually(t, "all others have found that somebody is at it", func() bool {
		conflicts := int64(0)
		for _, k := range keepers {
			conflicts += k.Local().Conflicts
		}
		return conflicts >= 19*2
	})
	close(r.gate)
	wg.Wait()
	r.want(t, 2) // one that failed, one that did not
	if n := replayed.Load(); n != 19 {
		t.Errorf("%d of 20 were told that it was delivered before", n)
	}
}

func TestASenderThatIsStoppedLeavesTheCallToOthers(t *testing.T) {
	r := newReceiver(t, 429, 200)
	k := memoryKeeper(t)
	c := call(r.URL)
	c.Pause, c.MaxPause = time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := idempotency.Send(ctx, k, c)
		done <- err
	}()
	eventually(t, "the first attempt is over", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.bodies) == 1 && r.inFlight.Load() == 0
	})
	// A second sender waits for the first, as long as it may.
	short, stop := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := idempotency.Send(short, k, c)
		second <- err
	}()
	eventually(t, "the second sender waits", func() bool { return k.Local().Conflicts > 1 })
	stop()
	if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, idempotency.ErrNotDelivered) {
		t.Errorf("the second sender: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, idempotency.ErrNotDelivered) {
		t.Errorf("the first sender: %v", err)
	}
	if d, err := idempotency.Send(t.Context(), k, c); err != nil || d.Status != 200 {
		t.Errorf("delivery %+v, %v", d, err)
	}
	r.want(t, 2)
}
