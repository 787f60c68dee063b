package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/server/forwardauth"
)

// question is a request, and who sends it.
type question struct {
	path, key, address, tenant string
}

// finding is one limit as a door applies it: what is compared.
type finding struct{ entity, resource, limit, rule, level, fits string }

func found(d *sluice.Demand, fits bool) finding {
	return finding{d.Key.Entity, d.Key.Resource, d.Key.Limit, d.Limit.String(), d.Level.String(), fmt.Sprint(fits || d.Shadow)}
}

// door is a way in, on a store of its own, so that every door is in the same
// state when it is asked the same.
type door struct {
	limiter *sluice.Limiter
	gate    *httplimit.Gate
	last    []finding // of the last take
	ask     func(question) (status int)
}

// Decided notes what was taken.
func (d *door) Decided(t *sluice.Take, a *sluice.Decision, _ error, _ time.Duration) {
	d.last = d.last[:0]
	for i := range t.Demands {
		d.last = append(d.last, found(&t.Demands[i], a.Results[i].Fits))
	}
}

func (d *door) Consumed(sluice.Key, sluice.Limit, sluice.Consumption) {}
func (d *door) Waited(*sluice.Take, time.Duration, bool)              {}

// request is the question as a proxy on this machine passes it on.
func (q question) request(t *testing.T) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1"+q.path, http.NoBody)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", q.address)
	if q.key != "" {
		r.Header.Set("X-Api-Key", q.key)
	}
	if q.tenant != "" {
		r.Header.Set("X-Tenant", q.tenant)
	}
	return r
}

func status(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// newDoor opens a door to a world; open says how it is asked.
func newDoor(t *testing.T, w *world, open func(*door) func(question) int) *door {
	t.Helper()
	store := must(memory.Open(memory.Config{Clock: func() time.Time { return epoch }}))(t)
	closes(t, store)
	d := &door{}
	d.limiter = sluice.New(store, sluice.WithObserver(d))
	d.gate = must(httplimit.Open(t.Context(), httplimit.Config{
		Limiter: d.limiter, Policy: w.policy, Resolver: w.catalog, Verify: httplimit.Keys(w.catalog), Log: slog.New(slog.DiscardHandler),
	}))(t)
	closes(t, d.gate)
	d.ask = open(d)
	return d
}

// gates are the doors that decide whole requests.
func gates(t *testing.T, w *world, upstream string) map[string]*door {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handled := func(h http.Handler) func(question) int {
		return func(q question) int { return status(h, q.request(t)) }
	}
	return map[string]*door{
		"middleware": newDoor(t, w, func(d *door) func(question) int { return handled(d.gate.Wrap(ok)) }),
		"gateway": newDoor(t, w, func(d *door) func(question) int {
			return handled(must(gateway.New(gateway.Config{Upstream: upstream, Gate: d.gate, Log: slog.New(slog.DiscardHandler)}))(t))
		}),
		"forward-auth": newDoor(t, w, func(d *door) func(question) int {
			h := must(forwardauth.Handler(forwardauth.Config{Gate: d.gate}))(t)
			return func(q question) int {
				r := q.request(t)
				r.Header.Set("X-Forwarded-Method", r.Method)
				r.Header.Set("X-Forwarded-Uri", q.path)
				r.URL = &url.URL{Path: "/auth"}
				return status(h, r)
			}
		}),
		"gRPC": newDoor(t, w, func(d *door) func(question) int {
			return func(q question) int {
				md := metadata.MD{}
				for name, values := range q.request(t).Header {
					md.Set(name, values...)
				}
				ctx := peer.NewContext(metadata.NewIncomingContext(t.Context(), md), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}})
				ctx = grpc.NewContextWithServerTransportStream(ctx, mute{})
				_, err := grpclimit.Unary(d.gate)(ctx, nil, &grpc.UnaryServerInfo{FullMethod: q.path}, func(context.Context, any) (any, error) { return nil, nil })
				return map[string]int{"OK": 200, "ResourceExhausted": 429, "Unauthenticated": 401}[codeOf(err)]
			}
		}),
	}
}

// api is the HTTP API on the middleware's limiter.
type api struct {
	t       *testing.T
	handler http.Handler
}

func (a *api) ask(method, path, token string, body any) map[string]any {
	a.t.Helper()
	text := must(json.Marshal(body))(a.t)
	r := httptest.NewRequestWithContext(a.t.Context(), method, "http://127.0.0.1"+path, bytes.NewReader(text))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	answer := map[string]any{"code": w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil && err != io.EOF {
		a.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return answer
}

// listed are the limits of an answer, as its list of that name has them.
func listed(answer map[string]any, list string) (all []finding) {
	text := func(of map[string]any, name string) string { s, _ := of[name].(string); return s }
	entries, _ := answer[list].([]any)
	for _, e := range entries {
		e := object(e)
		name := text(e, "limit")
		shadow, _ := e["shadow"].(bool)
		fits, known := e["fits"].(bool)
		f := finding{text(e, "entity"), text(e, "resource"), name, text(e, "rule"), text(e, "level"), fmt.Sprint(fits || shadow || !known)}
		all = append(all, f)
	}
	return all
}

// less leaves out whether there is room, which some doors do not tell, and
// buckets that were taken by other limits than those that apply.
func less(all []finding) []finding {
	all = slices.DeleteFunc(slices.Clone(all), func(f finding) bool { return f.level == "none" })
	for i := range all {
		all[i].fits = ""
	}
	return all
}

// of are the findings on one resource.
func of(all []finding, resource string) []finding {
	return slices.DeleteFunc(slices.Clone(all), func(f finding) bool { return f.resource != resource })
}

// TestTheSameAnswerAtEveryDoor asks a thousand random questions of random
// callers, under random policies and catalogs, at every door. All of them find
// the same limits, numbers and levels, and give the same verdict.
func TestTheSameAnswerAtEveryDoor(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	const worlds, questions = 50, 20
	verdicts := map[int]int{}
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprint("world", seed), func(t *testing.T) {
			d := dice{rand.New(rand.NewPCG(seed, 7))}
			w := d.world(t)
			in := gates(t, w, upstream.URL)
			middle := in["middleware"]
			look := &api{t, must(server.Handler(server.Config{
				Limiter: middle.limiter, Catalog: w.catalog, Gate: middle.gate, Access: server.Access{Open: true}, Log: slog.New(slog.DiscardHandler),
			}))(t)}
			takes := opened(t, w)
			leases := opened(t, w)
			for range questions {
				q := question{path: d.one("/a/Get", "/b/Put", "/c"), address: d.one("192.0.2.1", "192.0.2.2"), tenant: d.maybe("acme", "other")}
				q.key = d.one(append([]string{"static", "wrong", "", ""}, w.clear...)...)
				verdicts[compare(t, w, q, in, look, takes, leases)]++
			}
			if t.Failed() {
				t.Logf("the policy:\n%+v", w.policy.Declared)
			}
		})
	}
	t.Logf("verdicts: %v", verdicts)
	if verdicts[200] < 100 || verdicts[429] < 100 || verdicts[401] < 50 {
		t.Errorf("too few questions with one of the verdicts: %v", verdicts)
	}
}

// opened is the API on a limiter of its own.
func opened(t *testing.T, w *world) *api {
	store := must(memory.Open(memory.Config{Clock: func() time.Time { return epoch }}))(t)
	closes(t, store)
	return &api{t, must(server.Handler(server.Config{
		Limiter: sluice.New(store), Catalog: w.catalog, Access: server.Access{Open: true}, Log: slog.New(slog.DiscardHandler),
	}))(t)}
}

// compare asks one question everywhere.
func compare(t *testing.T, w *world, q question, in map[string]*door, look, takes, leases *api) (verdict int) {
	t.Helper()
	middle := in["middleware"]
	differ := func(door string, got, want any) {
		t.Helper()
		t.Errorf("%+v: %s has\n  %+v\nthe middleware\n  %+v", q, door, got, want)
	}
	// Those that only look come first.
	headers := map[string]string{}
	if q.tenant != "" {
		headers["X-Tenant"] = q.tenant
	}
	explained := look.ask("POST", "/v1/explain/request", "", map[string]any{"method": "POST", "path": q.path + "?q=1", "key": q.key, "address": q.address, "headers": headers})
	type told struct {
		door string
		got  []finding
		full bool // it tells whether there is room
	}
	var answers []told
	caller, _ := explained["caller"].(string)
	tier, _ := explained["tier"].(string)
	route := w.policy.Match("POST", q.path)
	cost := route.Cost.Thousandths()
	for i := range route.Sets {
		set := &route.Sets[i]
		entity, said := caller, tier
		switch set.Kind.String() {
		case "caller", "user":
			said = w.keys[q.key].Tier // the resolver is to find the rest
			if q.key == "static" {
				said = w.policy.Identity.Keys[0].Tier
			}
		case "key":
			if entity = "key:" + w.keys[q.key].ID; q.key == "static" {
				entity = "key:static"
			}
		case "ip":
			entity = "ip:" + q.address
		case "header":
			entity = set.Entity(q.tenant)
		case "everyone":
			continue // the API is told who is asking
		}
		if (set.Kind.String() == "key" || set.Kind.String() == "user") && explained["knownBy"] != "key" {
			continue
		}
		if said == tier && tier == w.policy.Declared.AnonymousTier && strings.HasPrefix(caller, "ip:") {
			said = "" // so that this is found, too
		}
		body := map[string]any{"entity": entity, "resource": set.Name, "tier": said, "cost": sluice.Thousandths(cost)}
		asked := look.ask("POST", "/v1/explain", "", body)
		answers = append(answers, told{"explain of " + set.Name, listed(object(asked["decision"]), "results"), true})
		status := look.ask("GET", "/v1/status/"+url.PathEscape(entity)+"/"+set.Name+"?tier="+said, "", nil)
		answers = append(answers, told{"status of " + set.Name, listed(status, "limits"), false})
		body["peek"] = true
		answers = append(answers, told{"peek of " + set.Name, listed(look.ask("POST", "/v1/take", "", body), "results"), true})
		if _, stored := w.keys[q.key]; stored && set.Kind.String() != "ip" && set.Kind.String() != "header" {
			// The key's holder, who need not say the tier.
			mine := map[string]any{"entity": entity, "resource": set.Name, "cost": sluice.Thousandths(cost)}
			asked := look.ask("POST", "/v1/explain", q.key, mine)
			answers = append(answers, told{"own explain of " + set.Name, listed(object(asked["decision"]), "results"), true})
			status := look.ask("GET", "/v1/status/"+url.PathEscape(entity)+"/"+set.Name, q.key, nil)
			answers = append(answers, told{"own status of " + set.Name, listed(status, "limits"), false})
			mine["peek"] = true
			answers = append(answers, told{"own peek of " + set.Name, listed(look.ask("POST", "/v1/take", q.key, mine), "results"), true})
		}
		body["peek"] = false
		if len(w.policy.Declared.Terms) == 1 { // else others decide with it
			for name, a := range map[string]*api{"take": takes, "leases": leases} {
				answer := a.ask("POST", "/v1/"+name, "", body)
				answers = append(answers, told{name + " of " + set.Name, listed(answer, "results"), true})
				if id, _ := answer["lease"].(string); id != "" {
					a.ask("POST", "/v1/leases/"+id+"/commit", "", nil)
				}
				if got := answer["allowed"]; got != (explained["status"] != 429.0) {
					differ("the verdict of "+name, got, explained["status"])
				}
			}
		}
	}
	parent := w.parents[caller]
	parents := map[string][]finding{} // the parent's own limits, by set
	for i := range route.Sets {
		if name := route.Sets[i].Name; parent != "" && strings.Contains("caller user", route.Sets[i].Kind.String()) {
			asked := look.ask("POST", "/v1/explain", "", map[string]any{"entity": parent, "resource": name, "cost": sluice.Thousandths(cost)})
			parents[name] = listed(object(asked["decision"]), "results")
		}
	}
	var mine []finding
	if k, stored := w.keys[q.key]; stored {
		mine = listed(look.ask("GET", "/v1/me", q.key, nil), "limits")
		if k.Entity != caller {
			differ("/v1/me", k.Entity, caller)
		}
	}
	// Then those that take.
	for _, d := range in {
		d.last = d.last[:0]
	}
	verdict = middle.ask(q)
	want := middle.last
	if got := explained["status"]; got != float64(verdict) {
		differ("explain of the request", got, verdict)
	}
	if got := listed(object(explained["decision"]), "results"); !slices.Equal(got, want) {
		differ("explain of the request", got, want)
	}
	for name, d := range in {
		if d == middle {
			continue
		}
		if got := d.ask(q); got != verdict || !slices.Equal(d.last, want) {
			differ(name, fmt.Sprint(got, d.last), fmt.Sprint(verdict, want))
		}
	}
	for _, a := range answers {
		_, set, _ := strings.Cut(a.door, " of ")
		got, expected := a.got, of(want, set)
		if !a.full {
			got, expected = less(got), less(expected)
		}
		if !slices.Equal(got, expected) {
			differ(a.door, got, expected)
		}
	}
	for name, got := range parents {
		cascaded := slices.DeleteFunc(of(want, name), func(f finding) bool { return f.entity != parent })
		if verdict != 401 && !slices.Equal(got, cascaded) {
			differ("explain of the parent on "+name, got, cascaded)
		}
	}
	if _, stored := w.keys[q.key]; stored {
		for i := range route.Sets {
			if k := route.Sets[i].Kind.String(); k == "caller" || k == "user" || k == "key" {
				name := route.Sets[i].Name
				if got, expected := less(of(mine, name)), less(of(want, name)); !slices.Equal(got, expected) {
					differ("/v1/me on "+name, got, expected)
				}
			}
		}
	}
	return verdict
}

// mute is a gRPC stream whose headers nobody reads.
type mute struct{}

func (mute) Method() string               { return "" }
func (mute) SetHeader(metadata.MD) error  { return nil }
func (mute) SendHeader(metadata.MD) error { return nil }
func (mute) SetTrailer(metadata.MD) error { return nil }

func codeOf(err error) string { return grpcstatus.Code(err).String() }
