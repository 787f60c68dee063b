package envoy_test

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server/envoy"
)

// write puts files into a new folder named config.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func memoryStore(t testing.TB) sluice.Store {
	t.Helper()
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// open is a service on one file, in memory.
func open(t testing.TB, file string, settings envoy.Settings) *envoy.Service {
	t.Helper()
	return openOn(t, memoryStore(t), write(t, map[string]string{"test.yaml": file}), settings)
}

func openOn(t testing.TB, store sluice.Store, dir string, settings envoy.Settings) *envoy.Service {
	t.Helper()
	s, err := envoy.Open(envoy.Config{
		Limiter: sluice.New(store), Dir: dir, Settings: settings, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// d is a descriptor of keys and values.
func d(pairs ...string) *api.RateLimitDescriptor {
	descriptor := &api.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		descriptor.Entries = append(descriptor.Entries, &api.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return descriptor
}

func request(domain string, descriptors ...*api.RateLimitDescriptor) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: domain, Descriptors: descriptors}
}

func ask(t testing.TB, s *envoy.Service, q *pb.RateLimitRequest) *pb.RateLimitResponse {
	t.Helper()
	answer, err := s.ShouldRateLimit(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// outline is an answer in short: the overall code, and of each status its
// code and what remains.
func outline(a *pb.RateLimitResponse) string {
	short := func(c pb.RateLimitResponse_Code) string {
		if c == pb.RateLimitResponse_OVER_LIMIT {
			return "OVER"
		}
		return c.String()
	}
	parts := []string{short(a.GetOverallCode())}
	for _, st := range a.GetStatuses() {
		part := short(st.GetCode())
		switch {
		case st.GetCurrentLimit() != nil:
			part += " " + sluice.Thousandths(1000*int64(st.GetLimitRemaining())).String() + "/" + sluice.Thousandths(1000*int64(st.GetCurrentLimit().GetRequestsPerUnit())).String()
		case st.GetLimitRemaining() == math.MaxUint32:
			part += " unlimited"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

const manyRules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: user
    value: vip
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: user
    value: nobody
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: path
    value: files/*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: path
    value: alone/*
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: free
    rate_limit: {unlimited: true}
  - key: dark
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: quota
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: general
    rate_limit: {unit: day, requests_per_unit: 1, name: general}
  - key: special
    rate_limit: {unit: day, requests_per_unit: 3, replaces: [{name: general}]}
  - key: nested
    value: a
    descriptors:
      - key: inner
        rate_limit: {unit: WEEK, requests_per_unit: 1}
`

func TestRules(t *testing.T) {
	type step struct {
		ask  *pb.RateLimitRequest
		want string
	}
	hits := func(n uint32, q *pb.RateLimitRequest) *pb.RateLimitRequest {
		q.HitsAddend = n
		return q
	}
	own := func(n uint64, d *api.RateLimitDescriptor) *api.RateLimitDescriptor {
		d.HitsAddend = wrapperspb.UInt64(n)
		return d
	}
	brings := func(n uint32, unit typev3.RateLimitUnit, d *api.RateLimitDescriptor) *api.RateLimitDescriptor {
		d.Limit = &api.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		return d
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"each value by itself", []step{
			{request("shop", d("user", "a")), "OK, OK 1/2"},
			{request("shop", d("user", "b")), "OK, OK 1/2"},
			{request("shop", d("user", "a")), "OK, OK 0/2"},
			{request("shop", d("user", "a")), "OVER, OVER 0/2"},
			{request("shop", d("user", "vip")), "OK, OK 4/5"},
		}},
		{"none at all", []step{{request("shop", d("user", "nobody")), "OVER, OVER 0/0"}}},
		{"refused hits count", []step{
			{hits(3, request("shop", d("user", "vip"))), "OK, OK 2/5"},
			{hits(3, request("shop", d("user", "vip"))), "OVER, OVER 0/5"},
			{request("shop", d("user", "vip")), "OVER, OVER 0/5"},
		}},
		{"hits of nothing are one, or none on a descriptor", []step{
			{hits(0, request("shop", d("user", "a"))), "OK, OK 1/2"},
			{request("shop", own(0, d("user", "a"))), "OK, OK 1/2"},
			{hits(9, request("shop", own(1, d("user", "a")))), "OK, OK 0/2"},
			{request("shop", own(0, d("user", "a"))), "OK, OK 0/2"},
			{request("shop", own(1<<40, d("user", "a"))), "OVER, OVER 0/2"},
			{request("shop", own(0, d("user", "a"))), "OVER, OVER 0/2"},
		}},
		{"one bucket twice", []step{
			{request("shop", d("user", "a"), d("user", "a"), d("user", "a")), "OVER, OK 1/2, OK 0/2, OVER 0/2"},
		}},
		{"wildcards", []step{
			{request("shop", d("path", "files/1")), "OK, OK 1/2"},
			{request("shop", d("path", "files/2")), "OK, OK 0/2"},
			{request("shop", d("path", "files/3")), "OVER, OVER 0/2"},
			{request("shop", d("path", "alone/1")), "OK, OK 1/2"},
			{request("shop", d("path", "alone/2")), "OK, OK 1/2"},
			{request("shop", d("path", "elsewhere")), "OK, OK"},
		}},
		{"unlimited", []step{{request("shop", d("free", "x")), "OK, OK unlimited"}}},
		{"shadow and quota never refuse", []step{
			{request("shop", d("dark", "x"), d("quota", "x")), "OK, OK 0/1, OK 0/1"},
			{request("shop", d("dark", "x"), d("quota", "x")), "OK, OK 0/1, OK 0/1"},
		}},
		{"a rule replaces another", []step{
			{request("shop", d("general", ""), d("special", "")), "OK, OK, OK 2/3"},
			{request("shop", d("general", "")), "OK, OK 0/1"},
		}},
		{"depth must be the same", []step{
			{request("shop", d("nested", "a", "inner", "x")), "OK, OK 0/1"},
			{request("shop", d("nested", "a")), "OK, OK"},
			{request("shop", d("user", "a", "inner", "x")), "OK, OK"},
			{request("shop", d("nested", "a", "inner", "x", "user", "a")), "OK, OK"},
		}},
		{"a limit of its own", []step{
			{request("shop", brings(1, typev3.RateLimitUnit_DAY, d("user", "z"))), "OK, OK 0/1"},
			{request("shop", brings(9, typev3.RateLimitUnit_DAY, d("user", "z"))), "OK, OK 7/9"},
			{request("shop", brings(1, typev3.RateLimitUnit_DAY, d("user", "z"))), "OVER, OVER 0/1"},
			{request("elsewhere", brings(1, typev3.RateLimitUnit_DAY, d("user", "z"))), "OK, OK"},
		}},
		{"values that look like others", []step{
			{request("shop", d("user", "a,user=b")), "OK, OK 1/2"},
			{request("shop", d("user", "a%2cuser=b")), "OK, OK 1/2"},
			{request("shop", d("user", strings.Repeat("x", 300))), "OK, OK 1/2"},
			{request("shop", d("user", strings.Repeat("x", 301))), "OK, OK 1/2"},
			{request("shop", d("user", strings.Repeat("x", 301))), "OK, OK 0/2"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, manyRules, envoy.Settings{})
			for i, step := range c.steps {
				if got := outline(ask(t, s, step.ask)); got != step.want {
					t.Errorf("step %d: %s, want %s", i+1, got, step.want)
				}
			}
		})
	}
}

func TestManyDescriptors(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{})
	q := &pb.RateLimitRequest{Domain: "shop"}
	for i := range 200 {
		q.Descriptors = append(q.Descriptors, d("user", strings.Repeat("u", i+1)))
	}
	for _, want := range []uint32{1, 0} {
		for i, st := range ask(t, s, q).GetStatuses() {
			if st.GetLimitRemaining() != want {
				t.Fatalf("descriptor %d has %d left, want %d", i, st.GetLimitRemaining(), want)
			}
		}
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{})
	unknown := d("user", "a")
	unknown.Limit = &api.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	for _, c := range []struct {
		ask  *pb.RateLimitRequest
		want string
	}{
		{request("", d("user", "a")), "rate limit domain must not be empty"},
		{request("shop"), "rate limit descriptor list must not be empty"},
		{request("shop", unknown), "descriptor limit has the unit 0: want one from second to year"},
		{nil, "rate limit domain must not be empty"},
	} {
		if _, err := s.ShouldRateLimit(t.Context(), c.ask); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.ask, err, c.want)
		}
	}
}

func TestHeadersAreAboutTheClosestLimit(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{Headers: true, LimitHeader: "X-Limit"})
	a := ask(t, s, request("shop", d("user", "vip"), d("user", "a"), d("free", "")))
	if len(a.GetResponseHeadersToAdd()) != 3 {
		t.Fatalf("headers %v", a.GetResponseHeadersToAdd())
	}
	for i, want := range []string{"X-Limit: 2", "RateLimit-Remaining: 1", "RateLimit-Reset: "} {
		h := a.GetResponseHeadersToAdd()[i]
		if got := h.GetKey() + ": " + h.GetValue(); !strings.HasPrefix(got, want) {
			t.Errorf("header %q, want %q", got, want)
		}
	}
	if a := ask(t, s, request("shop", d("free", ""))); len(a.GetResponseHeadersToAdd()) != 0 {
		t.Errorf("headers about no limit: %v", a.GetResponseHeadersToAdd())
	}
}

func TestResetIsTheEndOfTheWindow(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{})
	const day = 24 * 60 * 60
	reset := ask(t, s, request("shop", d("user", "a"))).GetStatuses()[0].GetDurationUntilReset()
	if reset.GetSeconds() < 1 || reset.GetSeconds() > day || reset.GetNanos() != 0 {
		t.Errorf("reset in %s", reset.AsDuration())
	}
}

// TestStopCounting is STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT.
func TestStopCounting(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{StopCounting: true})
	for i, want := range []string{
		"OVER, OVER 0/0, OK 5/5", // the second is not counted
		"OVER, OVER 0/0, OK 5/5",
	} {
		if got := outline(ask(t, s, request("shop", d("user", "nobody"), d("user", "vip")))); got != want {
			t.Errorf("step %d: %s, want %s", i+1, got, want)
		}
	}
	if got := outline(ask(t, s, request("shop", d("user", "vip")))); got != "OK, OK 4/5" {
		t.Error(got)
	}
}

func TestGlobalModes(t *testing.T) {
	q := request("shop", d("user", "nobody"))
	shadow := open(t, manyRules, envoy.Settings{Shadow: true})
	if got := outline(ask(t, shadow, q)); got != "OK, OVER 0/0" {
		t.Error("shadow:", got)
	}
	quota := open(t, manyRules, envoy.Settings{Quota: true, Metadata: true})
	a := ask(t, quota, q)
	if got := outline(a); got != "OK, OK 0/0" {
		t.Error("quota:", got)
	}
	if v := a.GetDynamicMetadata().GetFields()["quotaModeViolations"].GetListValue().GetValues(); len(v) != 1 || v[0].GetNumberValue() != 0 {
		t.Errorf("metadata %v", a.GetDynamicMetadata())
	}
}
