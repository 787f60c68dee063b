package idempotency_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/idempotency"
)

// digests answers with the length and digest of what it was sent.
type digests struct{ runs atomic.Int64 }

func (d *digests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.runs.Add(1)
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%d %x", n, h.Sum(nil)[:4])
}

// send posts a body over a socket and answers status, body and whether it was
// a replay. A body of unknown length goes in chunks.
func send(tb testing.TB, url, key string, body io.Reader) (status int, text string, replay bool) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, body)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header.Get("Idempotent-Replay") == "true"
}

func chunked(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

func TestChunkedAndPlainBodiesAreTheSame(t *testing.T) {
	var d digests
	s := httptest.NewServer(memoryKeeper(t).Handler(always(prepared(t, nil)), &d))
	defer s.Close()
	status, first, replay := send(t, s.URL, "k", chunked("hello"))
	if status != 200 || replay || !strings.HasPrefix(first, "5 ") {
		t.Errorf("%d %q %t", status, first, replay)
	}
	if status, text, replay := send(t, s.URL, "k", strings.NewReader("hello")); status != 200 || text != first || !replay {
		t.Errorf("%d %q %t", status, text, replay)
	}
	if status, _, _ := send(t, s.URL, "k", chunked("hello!")); status != 422 {
		t.Errorf("status %d, want 422", status)
	}
}

func TestLargeUploadsAreComparedToTheEnd(t *testing.T) {
	var d digests
	route := prepared(t, func(r *idempotency.Route) { r.MaxBuffer = 1000 })
	s := httptest.NewServer(memoryKeeper(t).Handler(always(route), &d))
	defer s.Close()
	body := strings.Repeat("0123456789", 10_000)
	_, first, _ := send(t, s.URL, "k", strings.NewReader(body))
	if !strings.HasPrefix(first, "100000 ") {
		t.Fatalf("the handler got %q", first)
	}
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"same":               {body, 200},
		"other at the end":   {body[:len(body)-1] + "x", 422},
		"other at the start": {"x" + body[1:], 422},
		"shorter":            {body[:len(body)-1], 422},
		"longer":             {body + "x", 422},
		"small":              {body[:1000], 422},
		"empty":              {"", 422},
	} {
		for kind, reader := range map[string]io.Reader{"plain": strings.NewReader(test.body), "chunked": chunked(test.body)} {
			status, text, replay := send(t, s.URL, "k", reader)
			if status != test.status || replay != (status == 200) || status == 200 && text != first {
				t.Errorf("%s, %s: %d %q %t", name, kind, status, text, replay)
			}
		}
	}
	if n := d.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A handler that does not read to the end has not seen the rest, so the rest
// does not count.
func TestAnUploadIsComparedAsFarAsItWasRead(t *testing.T) {
	route := prepared(t, func(r *idempotency.Route) { r.MaxBuffer = 1000 })
	h := memoryKeeper(t).Handler(always(route), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 2000)
		w.Write([]byte("enough"))
	}))
	body := strings.Repeat("x", 5000)
	wantAnswer(t, do(h, post("k", body)), 200, "enough", false)
	wantAnswer(t, do(h, post("k", body)), 200, "enough", true)
	wantAnswer(t, do(h, post("k", body+"more")), 200, "enough", true)
	wantCode(t, do(h, post("k", body[:1500]+"y"+body[1501:])), 422, idempotency.CodeReused)
	wantCode(t, do(h, post("k", body[:1500])), 422, idempotency.CodeReused)
}

// zeros is a body of so many bytes that are nowhere.
type zeros struct {
	left int64
	peak *atomic.Uint64
}

func (z *zeros) Read(b []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(z.left, int64(len(b))))
	if z.left>>26 != (z.left-int64(n))>>26 { // every 64 MiB
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		z.peak.Store(max(z.peak.Load(), m.HeapAlloc))
	}
	z.left -= int64(n)
	return n, nil
}

func TestAGibibyteTakesNoMemory(t *testing.T) {
	const size = 1 << 30
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 1<<20))
		fmt.Fprint(w, n, err)
	}))
	s := httptest.NewServer(h)
	defer s.Close()
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	status, text, _ := send(t, s.URL, "k", &zeros{left: size, peak: &peak})
	if status != 200 || text != fmt.Sprint(size, nil) {
		t.Errorf("%d %s", status, text)
	}
	grown := int64(peak.Load()) - int64(before.HeapAlloc)
	t.Logf("the heap grew by %d KiB at most", grown>>10)
	if grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}
