package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

// fill puts names into the path of a route.
func fill(path string) string {
	return strings.NewReplacer("{", "", "}", "").Replace(path)
}

// No route is open to those who bring nothing, or something wrong.
func TestEveryRouteWantsACredential(t *testing.T) {
	s := stage(t, nil)
	for _, route := range server.Routes() {
		path := fill(route.Path)
		for _, header := range []map[string]string{nil, bearer(""), bearer("wrong"), bearer(adminToken[:15]), {"Authorization": "Basic " + adminToken}} {
			r := s.raw(t, route.Method, path, "", header)
			if r.status != 401 || r.header.Get("WWW-Authenticate") == "" || r.json["field"] != nil {
				t.Errorf("%s %s as %v: %d %s", route.Method, path, header, r.status, r.body)
			}
		}
	}
	lower := map[string]string{"Authorization": "bearer " + adminToken}
	if r := s.raw(t, "GET", "/v1/tiers", "", lower); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func open(c *server.Config) { c.Access.Open = true }

// A browser on the same machine shows pages of anyone, who could otherwise
// change limits through it.
func TestPagesOfOthersAreKeptOut(t *testing.T) {
	s := stage(t, open)
	host := strings.TrimPrefix(s.url, "http://")
	const body = `{"limits":{"rpm":"1/s"}}`
	for name, c := range map[string]struct {
		header map[string]string
		host   string
		status int
	}{
		"a program":             {nil, "", 200},
		"our own page":          {map[string]string{"Origin": s.url, "Sec-Fetch-Site": "same-origin"}, "", 200},
		"another site":          {map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, "", 403},
		"an old browser":        {map[string]string{"Origin": "http://evil.example"}, "", 403},
		"another port":          {map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, "", 403},
		"a name turned to here": {map[string]string{"Origin": "http://evil.example"}, "evil.example", 403},
		"a look by that name":   {nil, "evil.example", 403},
		"localhost":             {map[string]string{"Origin": "http://localhost:80"}, "localhost:80", 200},
	} {
		request := must(http.NewRequestWithContext(t.Context(), "PUT", s.url+"/v1/limits/system", strings.NewReader(body)))(t)
		for k, v := range c.header {
			request.Header.Set(k, v)
		}
		request.Host = host
		if c.host != "" {
			request.Host = c.host
		}
		response := must(http.DefaultClient.Do(request))(t)
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s: got %d, want %d", name, response.StatusCode, c.status)
		}
	}
	// With a token it does not matter where it comes from.
	header := bearer(readToken)
	header["Origin"] = "http://elsewhere.example"
	if r := s.raw(t, "GET", "/v1/tiers", "", header); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	// A wrong token is not as good as none.
	if r := s.raw(t, "GET", "/v1/tiers", "", bearer("wrong")); r.status != 401 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestVerifiedCertificatesAreLetIn(t *testing.T) {
	store := must(memory.Open(memory.Config{}))(t)
	closes(t, store)
	handler := must(server.Handler(server.Config{
		Limiter: sluice.New(store), Limits: map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)},
		Access: server.Access{Certificates: server.RoleService}, Log: slog.New(slog.DiscardHandler),
	}))(t)
	chain := [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "worker"}}}}
	for name, c := range map[string]struct {
		state  *tls.ConnectionState
		path   string
		status int
	}{
		"none":       {nil, "/v1/take", 401},
		"unverified": {&tls.ConnectionState{PeerCertificates: chain[0]}, "/v1/take", 401},
		"verified":   {&tls.ConnectionState{VerifiedChains: chain}, "/v1/take", 200},
		"too low":    {&tls.ConnectionState{VerifiedChains: chain}, "/v1/reset", 403},
	} {
		r := httptest.NewRequest("POST", c.path, strings.NewReader(`{"entity":"alice"}`))
		r.TLS = c.state
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestTokensAreChecked(t *testing.T) {
	for _, token := range []server.Token{
		{Name: "x", Secret: "short", Role: server.RoleRead},
		{Name: "x", Secret: strings.Repeat("x", 16)},
		{Secret: strings.Repeat("x", 16), Role: server.RoleRead},
		{Name: "x", Secret: strings.Repeat("x", 16), Role: 99},
		{Name: "x", Secret: strings.Repeat("x", 16), Role: server.RoleTake}, // for whom?
	} {
		_, err := server.Handler(server.Config{
			Limiter: sluice.New(nil), Limits: map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)}, Access: server.Access{Tokens: []server.Token{token}},
		})
		if err == nil || strings.Contains(err.Error(), token.Secret) && token.Secret != "" {
			t.Errorf("%+v: %v", token, err)
		}
	}
	_, err := server.Handler(server.Config{
		Limiter: sluice.New(nil), Limits: map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)}, Access: server.Access{Certificates: server.RoleTake},
	})
	if err == nil {
		t.Error("a certificate stands for no entity")
	}
}

// What the server does not have it says so about.
func TestPartsThatAreMissing(t *testing.T) {
	s := stage(t, func(c *server.Config) {
		open(c)
		c.Catalog, c.Slots, c.Replays = nil, nil, nil
		c.Limits = map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)}
	})
	c := s.as(t, "")
	ctx := t.Context()
	if d := must(c.Take(ctx, client.Take{Entity: "alice"}))(t); d.Demands[0].Level != sluice.LevelDefault {
		t.Errorf("%+v", d)
	}
	for code, try := range map[string]func() error{
		"no_catalog": func() error { _, err := c.Tiers(ctx, client.Page{}); return err },
		"no_slots":   func() error { _, err := c.SlotPlans(ctx, client.Page{}); return err },
		"no_replays": func() error { _, err := c.ReplayStats(ctx, idempotency.Query{}); return err },
	} {
		var e *client.Error
		if err := try(); !errors.As(err, &e) || e.Status != 501 || e.Code != code {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// Failed logins are counted, and those without any credential are none.
func TestFailedLogins(t *testing.T) {
	logins := abuse.NewLogins(slog.New(slog.DiscardHandler))
	s := stage(t, func(c *server.Config) { c.Logins = logins })
	for secret, want := range map[string]int64{"": 0, adminToken: 0, "wrong-and-long-enough": 1, "slk_nobody_nothing": 1} {
		header := map[string]string{}
		if secret != "" {
			header = bearer(secret)
		}
		before := logins.Counts()["api"]
		s.raw(t, "GET", "/v1/entities", "", header)
		if got := logins.Counts()["api"] - before; got != want {
			t.Errorf("%q: %d failed logins", secret, got)
		}
	}
}
