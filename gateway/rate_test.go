package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// trickle is a connection on which a byte comes now and then.
type trickle struct {
	http.ResponseWriter
	every    time.Duration
	left     int
	deadline time.Time
}

func (c *trickle) SetReadDeadline(t time.Time) error { c.deadline = t; return nil }
func (c *trickle) Close() error                      { return nil }

func (c *trickle) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	if wait := time.Until(c.deadline); wait < c.every {
		time.Sleep(wait)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(c.every)
	c.left--
	b[0] = 'x'
	return 1, nil
}

// TestABodyThatTrickles: a client that always sends a little before it would
// stall does not keep a connection for ever.
func TestABodyThatTrickles(t *testing.T) {
	for name, c := range map[string]struct {
		every   time.Duration
		rate    int
		pause   time.Duration // of the upstream, between two reads
		stalled bool
		after   time.Duration
	}{
		"a byte in 50 s":          {every: 50 * time.Second, rate: 128, stalled: true, after: time.Minute},
		"a byte in a second":      {every: time.Second, rate: 128, stalled: true, after: time.Minute + 59*time.Second/128},
		"quick enough":            {every: 5 * time.Millisecond, rate: 128, after: 5 * time.Second},
		"an upstream that pauses": {every: 5 * time.Millisecond, rate: 128, pause: time.Second, after: 1005 * time.Second},
		"any rate":                {every: 50 * time.Second, rate: -1, after: 50_000 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := &trickle{ResponseWriter: httptest.NewRecorder(), every: c.every, left: 1000}
			e := new(exchange)
			r := &stallReader{ReadCloser: conn, control: http.NewResponseController(conn), timeout: time.Minute, rate: c.rate, exchange: e}
			began := time.Now()
			for {
				if _, err := r.Read(make([]byte, 1)); err != nil {
					break
				}
				time.Sleep(c.pause)
			}
			if took := time.Since(began).Round(time.Second); e.stalled.Load() != c.stalled || e.broken.Load() || took != c.after.Round(time.Second) {
				t.Errorf("%s: stalled %v after %s, want %+v", name, e.stalled.Load(), took, c)
			}
		})
	}
}
