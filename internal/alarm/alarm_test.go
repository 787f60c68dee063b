package alarm

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// receiver is a webhook in this process.
type receiver struct {
	mu       sync.Mutex
	answers  []int // one for each post; then 204
	posts    []*http.Request
	bodies   []string
	times    []time.Time
	stalling chan struct{} // blocks answers if it is not nil
}

func (rc *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	rc.mu.Lock()
	n, status := len(rc.posts), http.StatusNoContent
	if n < len(rc.answers) {
		status = rc.answers[n]
	}
	rc.posts, rc.bodies, rc.times = append(rc.posts, r), append(rc.bodies, string(body)), append(rc.times, time.Now())
	rc.mu.Unlock()
	if rc.stalling != nil {
		select {
		case <-rc.stalling:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: http.NoBody, Header: http.Header{}}, nil
}

func open(t *testing.T, rc *receiver, secret string) (*Hook, *slog.Logger) {
	t.Helper()
	h, err := Open(Config{URL: "https://hooks.example/in", Secret: secret, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h.client.Transport = rc
	return h, slog.New(h.Handler(slog.NewTextHandler(io.Discard, nil)))
}

func TestAlarmsArePostedAndSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc := &receiver{}
		h, log := open(t, rc, "whsec_"+base64.StdEncoding.EncodeToString([]byte("a secret of some bytes")))
		log.With("node", "n1").Error("bucket near its limit", "limit", "rpm", "utilization", 91.5)
		log.Error("something else")
		synctest.Wait()
		if len(rc.posts) != 1 {
			t.Fatalf("%d posts, want 1", len(rc.posts))
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(rc.bodies[0]), &got); err != nil {
			t.Fatal(err)
		}
		if got["msg"] != "bucket near its limit" || got["level"] != "ERROR" || got["node"] != "n1" || got["utilization"] != 91.5 || got["time"] == nil {
			t.Errorf("posted %s", rc.bodies[0])
		}
		header := rc.posts[0].Header
		mac := hmac.New(sha256.New, []byte("a secret of some bytes"))
		io.WriteString(mac, header.Get("Webhook-Id")+"."+header.Get("Webhook-Timestamp")+"."+rc.bodies[0])
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); header.Get("Webhook-Signature") != want {
			t.Errorf("signature %q, want %q", header.Get("Webhook-Signature"), want)
		}
		if err := h.Close(); err != nil || h.Stats() != (Stats{Posted: 1}) {
			t.Errorf("%+v, %v", h.Stats(), err)
		}
	})
}

func TestPostsAreRepeatedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc := &receiver{answers: []int{0, 503, 429, 200, 404, 302, 500, 500, 500, 500, 500, 500}}
		h, log := open(t, rc, "")
		log.Warn("sanction begins", "n", 1) // taken at the fourth attempt
		log.Warn("sanction begins", "n", 2) // refused for good
		log.Warn("sanction begins", "n", 3) // leads elsewhere
		log.Warn("sanction begins", "n", 4) // given up
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := h.Stats(); got != (Stats{Posted: 1, Failed: 3}) || len(rc.posts) != 12 {
			t.Fatalf("%+v after %d posts", got, len(rc.posts))
		}
		if rc.posts[0].Header.Get("Webhook-Id") != rc.posts[3].Header.Get("Webhook-Id") || rc.posts[0].Header.Get("Webhook-Signature") != "" {
			t.Error("a repeated post has another id, or is signed without a secret")
		}
		for n := 1; n < 4; n++ {
			pause, longest := rc.times[n].Sub(rc.times[n-1]), time.Second<<(n-1)
			if pause < longest/2 || pause > longest {
				t.Errorf("pause %d was %s, want %s to %s", n, pause, longest/2, longest)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Nobody waits for a webhook that does not answer.
func TestAFullQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc := &receiver{stalling: make(chan struct{})}
		h, log := open(t, rc, "")
		before := time.Now()
		log.Warn("store state changed")
		synctest.Wait()
		for range mostWaiting + 10 {
			log.Warn("store state changed")
		}
		if got := h.Stats(); got.Dropped != 10 || time.Since(before) != 0 {
			t.Errorf("%+v after %s, want 10 dropped at once", got, time.Since(before))
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > farewell {
			t.Errorf("closing took %s", took)
		}
		if got := h.Stats(); got.Failed != mostWaiting+1 {
			t.Errorf("in the end %+v", got)
		}
	})
}

func TestPrivateAddressesAreRefusedUnlessAllowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	for _, private := range []bool{false, true} {
		var lines bytes.Buffer
		h, err := Open(Config{URL: "http://hooks.example/secret-path", Private: private, Log: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		h.config.URL = server.URL + "/secret-path" // as if the name led there
		_, err = h.send(t.Context(), post{id: "x", body: []byte("{}")})
		if private != (err == nil) {
			t.Errorf("private %t: %v", private, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret-path") {
			t.Errorf("the error has the address: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, config := range []Config{{URL: "hooks.example"}, {URL: "ftp://x/"}, {URL: "https://"}, {URL: "https://x/", Secret: "whsec_!"},
		{URL: "http://127.0.0.1:1/"}, {URL: "https://[::1]/"}, {URL: "https://169.254.169.254/"}, {URL: "http://10.1.2.3/"}, {URL: "http://localhost:1/"}} {
		if h, err := Open(config); err == nil {
			t.Errorf("%+v was accepted", config)
			h.Close()
		}
	}
}
