package server_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// counter counts the decisions that were really made.
type counter struct {
	decided atomic.Int64
	enough  chan struct{} // closed at the thousandth
}

func (c *counter) Decided(*sluice.Take, *sluice.Decision, error, time.Duration) {
	if c.decided.Add(1) == 1000 {
		close(c.enough)
	}
}

func (c *counter) Consumed(sluice.Key, sluice.Limit, sluice.Consumption) {}
func (c *counter) Waited(*sluice.Take, time.Duration, bool)              {}

// Once the server has decided a take, its caller gets the answer, shutdown or
// not: otherwise tokens would be spent on nothing.
func TestShutdownUnderLoadAnswersEveryDecision(t *testing.T) {
	decisions := &counter{enough: make(chan struct{})}
	url, stop := start(t, sluice.WithObserver(decisions))

	var answered atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				// An error here is a connection that the server did not take up.
				response, err := client.Post(url+"/v1/take", "application/json", strings.NewReader(`{"entity":"alice"}`))
				if err != nil {
					return
				}
				if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), `"results"`) {
					t.Errorf("got %d %q, %v", response.StatusCode, body, err)
				}
				response.Body.Close()
				answered.Add(1)
			}
		})
	}
	<-decisions.enough
	if err := stop(); err != nil {
		t.Error(err)
	}
	callers.Wait()
	if decided := decisions.decided.Load(); decided != answered.Load() {
		t.Errorf("%d takes were decided, %d answered", decided, answered.Load())
	}
}
