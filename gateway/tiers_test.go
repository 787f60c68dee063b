package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// tiers runs the sample policy of a REST API in front of an upstream that
// says yes to everything. Keys are called after their tier. The store's time
// stands still, so that nothing comes back while a slow machine starts curl.
func tiers(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../examples/rest-api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("rest-api.yaml", content)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	store, err := memory.Open(memory.Config{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := httplimit.Open(t.Context(), httplimit.Config{
		Limiter: sluice.New(store), Policy: p, Log: quiet,
		Verify: func(_ context.Context, key string) (identity.Verified, error) {
			tier, name, ok := strings.Cut(key, "-")
			if !ok {
				return identity.Verified{}, identity.ErrNoKey
			}
			return identity.Verified{Key: "key:" + name, Entity: "key:" + name, Tier: tier}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	_, address := running(t, gateway.Config{
		Upstream: upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), Gate: g,
	})
	return address
}

// curl sends a request as a person would, and reads what curl prints.
func curl(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	args := []string{"--silent", "--show-error", "--include", "--raw", "--max-time", "30", "--noproxy", "*", "--request", method}
	for _, h := range header {
		args = append(args, "--header", h)
	}
	out, err := exec.CommandContext(t.Context(), "curl", append(args, url)...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("curl %s: %v: %s", url, err, failed.Stderr)
		}
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
	if err != nil {
		t.Fatalf("curl printed %q: %v", out, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("curl printed %q: %v", out, err)
	}
	return response, string(body)
}

// What is looked at closely is asked with curl; the requests that only use a
// limit up are not.
func TestTheThreeTiersOfARESTAPI(t *testing.T) {
	for _, tier := range []struct {
		name     string
		global   int
		payments int // 0: no limit of their own
	}{
		{"free", 100, 0}, {"pro", 1000, 20}, {"enterprise", 10000, 100},
	} {
		t.Run(tier.name, func(t *testing.T) {
			address := tiers(t)
			send := func(method, path, key string) (*http.Response, string) {
				return do(t, method, address+path, nil, "X-API-Key", tier.name+"-"+key)
			}
			left := tier.global
			for _, step := range []struct {
				method, path string
				cost         int
			}{
				{"GET", "/api/users", 1}, {"POST", "/api/search", 3}, {"POST", "/api/analyze", 5}, {"GET", "/api/export", 10}, {"POST", "/api/payment/42", 1},
			} {
				response, body := curl(t, step.method, address+step.path, "X-API-Key: "+tier.name+"-one")
				left -= step.cost
				h := response.Header
				if response.StatusCode != 204 || h.Get("X-RateLimit-Cost") != strconv.Itoa(step.cost) || h.Get("X-RateLimit-Source") != "store" {
					t.Fatalf("%s: %d %s %v", step.path, response.StatusCode, body, h)
				}
				if want := `"global";r=` + strconv.Itoa(left) + ";"; !strings.Contains(h.Get("RateLimit"), want) {
					t.Errorf("%s: %s, want %s", step.path, h.Get("RateLimit"), want)
				}
				if want := `"global";q=` + strconv.Itoa(tier.global) + ";w=3600"; !strings.Contains(h.Get("RateLimit-Policy"), want) {
					t.Errorf("%s: %s, want %s", step.path, h.Get("RateLimit-Policy"), want)
				}
				if tier.global < 1200 && (h.Get("RateLimit-Limit") != strconv.Itoa(tier.global) && step.cost != 1) {
					t.Errorf("%s: RateLimit-Limit %s", step.path, h.Get("RateLimit-Limit"))
				}
			}
			if tier.payments > 0 {
				for i := range tier.payments {
					if response, body := send("POST", "/api/payment/42", "two"); response.StatusCode != 204 {
						t.Fatalf("payment %d: %d %s", i+1, response.StatusCode, body)
					}
				}
				p := refused(t, address, "POST", "/api/payment/42", tier.name+"-two")
				if !slices.Equal(p.Violated, []string{"payment"}) || p.Rule != strconv.Itoa(tier.payments)+"/5m" {
					t.Errorf("payments: %+v", p)
				}
				if response, _ := send("GET", "/api/users", "two"); response.StatusCode != 204 {
					t.Errorf("the rest after payments are used up: %d", response.StatusCode)
				}
			}
			if tier.global <= 1000 {
				for i := range tier.global / 10 {
					if response, body := send("GET", "/api/export", "three"); response.StatusCode != 204 {
						t.Fatalf("export %d: %d %s", i+1, response.StatusCode, body)
					}
				}
				p := refused(t, address, "GET", "/api/export", tier.name+"-three")
				// 10 tokens come back in a tenth of the hour over a tenth of the limit.
				wait := int64(36000 / tier.global)
				if !slices.Contains(p.Violated, "global") || p.Tier != tier.name || *p.RetryAfter < wait || *p.RetryAfter > wait+2 {
					t.Errorf("global: %+v, retry after %d, want %d and up to 2 s of jitter", p, *p.RetryAfter, wait)
				}
				if (p.Upgrade != "") != (tier.name == "free") || p.Docs != "https://api.example.com/docs/rate-limits" {
					t.Errorf("links: %+v", p)
				}
			}
		})
	}
}

func refused(t *testing.T, address, method, path, key string) httplimit.Problem {
	t.Helper()
	response, body := curl(t, method, address+path, "X-API-Key: "+key)
	var p httplimit.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || response.StatusCode != 429 || p.RetryAfter == nil || p.Code != "ERR_RATE_LIMIT" ||
		p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s %v", response.StatusCode, body, err)
	}
	if after := response.Header.Get("Retry-After"); after != strconv.FormatInt(*p.RetryAfter, 10) {
		t.Errorf("Retry-After %s, and %d in the body", after, *p.RetryAfter)
	}
	return p
}

func TestCallersWithoutAKeyAndHealthChecks(t *testing.T) {
	address := tiers(t)
	for range 10 {
		if response, body := do(t, "GET", address+"/api/export", nil); response.StatusCode != 204 {
			t.Fatal(response.StatusCode, body)
		}
	}
	response, body := curl(t, "GET", address+"/api/users")
	if response.StatusCode != 429 || !strings.Contains(body, `"tier":"anonymous"`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	for method, path := range map[string]string{"GET": "/healthz", "OPTIONS": "/api/users"} {
		if response, _ := do(t, method, address+path, nil); response.StatusCode != 204 {
			t.Errorf("%s %s: %d", method, path, response.StatusCode)
		}
	}
	if response, _ := do(t, "GET", address+"/api/users", nil, "X-API-Key", "guess"); response.StatusCode != 429 {
		t.Errorf("a wrong key after the address is used up: %d", response.StatusCode)
	}
	if response, _ := do(t, "GET", address+"/api/users", nil, "X-API-Key", "free-x"); response.StatusCode != 204 {
		t.Errorf("a key: %d", response.StatusCode)
	}
}
