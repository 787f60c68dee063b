package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// outagePolicy bans whoever is refused often. Callers of /auth are known by
// their address alone.
const outagePolicy = `
version: 1
limits: {web: {per: ip, limit: 10/s}}
identity: {address: {trusted_proxies: 127.0.0.0/8}}
abuse: {ban: {refusals: 20, within: 1m, for: 10m}}
`

// callers are of one kind.
type callers struct {
	name, tier string
	limit      sluice.Limit
	every      time.Duration // between two calls of one of them
	many, few  int           // how many; few in make test
	within     bool          // they ask for half of what the limit lets pass
}

// web callers ask /auth, all others /v1/take.
const web = "no tier"

var outageCallers = []callers{
	{"pro", "pro", sluice.MustParse("10/s"), 200 * time.Millisecond, 40, 12, true},
	{"free", "free", sluice.MustParse("10/s"), 200 * time.Millisecond, 20, 3, true},
	{web, "", sluice.MustParse("10/s"), 200 * time.Millisecond, 6, 3, true},
	{"held", "enterprise", sluice.MustParse("100/s"), 20 * time.Millisecond, 3, 1, true},
	{"beyond", "pro", sluice.MustParse("10/s"), 33 * time.Millisecond, 6, 2, false},
}

// outcome is who decided a call, and how.
type outcome int

const (
	byStore outcome = iota
	byHeld          // tokens in hand, or the deny cache
	localPassed
	localRefused
	byGuess // decided locally after the store gave no answer
	inError
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"store", "held", "degraded, passed", "degraded, refused", "unknown", "errors"}[o]
}

// answer is what became of a call. Times are since the crowd came.
type answer struct {
	begun, ended time.Duration
	kind         int // of the caller, in outageCallers
	caller, node int
	outcome      outcome
	allowed      bool
	banned       bool
	err          error
}

// crowd is callers that ask three nodes in turn, each at an even pace whatever
// the answers.
type crowd struct {
	t      *testing.T
	nodes  []*process
	start  time.Time
	client *http.Client
	stop   context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	answers []answer
	states  [][]string // of each node, every outageStep
}

// outageStep is how often the state of nodes is looked at.
const outageStep = 200 * time.Millisecond

func gather(t *testing.T, nodes []*process, many bool) *crowd {
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{
		t: t, nodes: nodes, start: time.Now(), stop: stop, states: make([][]string, len(nodes)),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 10 * time.Second}},
	}
	t.Cleanup(c.leave)
	for kind, who := range outageCallers {
		n := who.few
		if many {
			n = who.many
		}
		for caller := range n {
			c.all.Go(func() {
				time.Sleep(who.every * time.Duration(caller) / time.Duration(n)) // evenly
				for i := range c.every(ctx, who.every) {
					c.all.Go(func() { c.call(kind, caller, (caller+i)%len(nodes)) })
				}
			})
		}
	}
	for node := range nodes {
		c.all.Go(func() {
			for range c.every(ctx, outageStep) {
				state := c.state(node)
				c.mu.Lock()
				for len(c.states[node]) <= int(time.Since(c.start)/outageStep) { // several after a look that was late
					c.states[node] = append(c.states[node], state)
				}
				c.mu.Unlock()
			}
		})
	}
	return c
}

// every yields numbers at a pace, until ctx is done. Those that are missed on a
// busy machine are left out.
func (c *crowd) every(ctx context.Context, pace time.Duration) func(func(int) bool) {
	return func(yield func(int) bool) {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil && yield(i); i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
}

// leave ends all calls.
func (c *crowd) leave() {
	c.stop()
	c.all.Wait()
	c.client.CloseIdleConnections()
}

// call makes one call and writes the answer down.
func (c *crowd) call(kind, caller, node int) {
	a := answer{begun: time.Since(c.start), kind: kind, caller: caller, node: node}
	a.outcome, a.err = c.ask(&a)
	a.ended = time.Since(c.start)
	if a.err != nil {
		a.outcome = inError
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, a)
}

func entity(kind, caller int) string { return fmt.Sprintf("%s-%d", outageCallers[kind].name, caller) }

func (c *crowd) ask(a *answer) (outcome, error) {
	who := &outageCallers[a.kind]
	var r *http.Request
	var err error
	if who.name == web {
		if r, err = http.NewRequest("GET", c.nodes[a.node].url()+"/auth", nil); err != nil {
			return 0, err
		}
		r.Header.Set("X-Forwarded-For", fmt.Sprint("10.0.0.", a.caller))
		r.Header.Set("X-Forwarded-Method", "GET")
		r.Header.Set("X-Forwarded-Uri", "/")
	} else {
		body := fmt.Sprintf(`{"entity":%q,"tier":%q,"limits":{"rate":%q}}`, entity(a.kind, a.caller), who.tier, who.limit)
		if r, err = http.NewRequest("POST", c.nodes[a.node].url()+"/v1/take", strings.NewReader(body)); err != nil {
			return 0, err
		}
	}
	response, text, err := fetch(c.client, r)
	if err != nil {
		return 0, err
	}
	a.allowed = response.StatusCode == http.StatusOK
	a.banned = response.StatusCode == http.StatusForbidden
	if !a.allowed && !a.banned && response.StatusCode != http.StatusTooManyRequests {
		return 0, fmt.Errorf("%s: %s", response.Status, text)
	}
	if who.name == web {
		return byStore, nil // it does not tell
	}
	var d struct{ Source string }
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return 0, fmt.Errorf("%w in %s", err, text)
	}
	switch d.Source {
	case "store":
		return byStore, nil
	case "unknown":
		return byGuess, nil
	case "degraded":
		if a.allowed {
			return localPassed, nil
		}
		return localRefused, nil
	}
	return byHeld, nil
}

// state is in which state a node says that its store is.
func (c *crowd) state(node int) string {
	response, err := c.client.Get("http://" + c.nodes[node].admin + "/metrics")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), "\nsluice_store_state{")
	for line := range strings.Lines("sluice_store_state{" + rest) {
		name, one := strings.CutSuffix(strings.TrimSpace(line), "} 1")
		if !strings.HasPrefix(line, "sluice_store_state{") {
			break
		}
		if one {
			return strings.Trim(strings.TrimPrefix(name, "sluice_store_state{state="), `"`)
		}
	}
	return ""
}

// calm reports whether the last n looks at each node found its store normal.
func (c *crowd) calm(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, states := range c.states {
		if len(states) < n {
			return false
		}
		for _, s := range states[len(states)-n:] {
			if s != "normal" {
				return false
			}
		}
	}
	return true
}
