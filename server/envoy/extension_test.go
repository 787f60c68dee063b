package envoy_test

import (
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/server/envoy"
)

func TestAllOrNothing(t *testing.T) {
	s := open(t, `
domain: shop
count_refused: false
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: team
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: dark
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: old
    rate_limit: {unit: day, requests_per_unit: 1, count_refused: true}
`, envoy.Settings{})
	both := request("shop", d("user", "a"), d("team", "t"))
	three := &pb.RateLimitRequest{Domain: "shop", HitsAddend: 3, Descriptors: both.GetDescriptors()}
	for i, c := range []struct {
		ask  *pb.RateLimitRequest
		want string
	}{
		{three, "OVER, OVER 0/2, OK 3/3"}, // nothing is consumed
		{both, "OK, OK 1/2, OK 2/3"},
		{request("shop", d("user", "a"), d("user", "a")), "OVER, OVER 0/2, OVER 0/2"}, // two of one bucket
		{request("shop", d("user", "a"), d("dark", "x")), "OK, OK 0/2, OK 0/1"},
		{request("shop", d("user", "b"), d("dark", "x")), "OK, OK 1/2, OK 0/1"}, // a shadow does not stand in the way
		{request("shop", d("user", "b"), d("old", "x")), "OK, OK 0/2, OK 0/1"},
		{request("shop", d("team", "u"), d("old", "x")), "OVER, OK 3/3, OVER 0/1"}, // the old one counts, the other does not
		{request("shop", d("team", "u")), "OK, OK 2/3"},
	} {
		if got := outline(ask(t, s, c.ask)); got != c.want {
			t.Errorf("step %d: %s, want %s", i+1, got, c.want)
		}
	}
}

func TestOtherAlgorithmsAndPeriods(t *testing.T) {
	s := open(t, `
domain: shop
descriptors:
  - key: bucket
    rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket, burst: 2}
  - key: sliding
    rate_limit: {period: 36h, requests_per_unit: 2, algorithm: sliding_window}
  - key: long
    rate_limit: {period: 90d, requests_per_unit: 2}
`, envoy.Settings{})
	for i, c := range []struct{ key, want string }{
		{"bucket", "OK, OK 1/10"}, {"bucket", "OK, OK 0/10"}, {"bucket", "OVER, OVER 0/10"},
		{"sliding", "OK, OK 1/2"}, {"sliding", "OK, OK 0/2"}, {"sliding", "OVER, OVER 0/2"},
		{"long", "OK, OK 1/2"}, {"long", "OK, OK 0/2"}, {"long", "OVER, OVER 0/2"},
	} {
		a := ask(t, s, request("shop", d(c.key, "x")))
		if got := outline(a); got != c.want {
			t.Errorf("step %d: %s, want %s", i+1, got, c.want)
		}
		if reset := a.GetStatuses()[0].GetDurationUntilReset().GetSeconds(); reset < 1 {
			t.Errorf("step %d: reset in %d s", i+1, reset)
		}
	}
}

func TestHeldLimitsNeverPassMore(t *testing.T) {
	store, err := advance.New(memoryStore(t), advance.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	dir := write(t, map[string]string{"a.yaml": `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 100, hold: true}
  - key: exact
    rate_limit: {unit: year, requests_per_unit: 100}
  - key: whole
    rate_limit: {unit: year, requests_per_unit: 100, count_refused: false}
`})
	s := openOn(t, store, dir, envoy.Settings{})
	for _, c := range []struct {
		key  string
		held bool
	}{{"user", true}, {"exact", false}, {"whole", false}} {
		before, passed := store.Stats().Held, 0
		for range 150 {
			if ask(t, s, request("shop", d(c.key, "a"))).GetOverallCode() == pb.RateLimitResponse_OK {
				passed++
			}
		}
		if passed != 100 {
			t.Errorf("%s: %d passed, want 100", c.key, passed)
		}
		if held := store.Stats().Held > before; held != c.held {
			t.Errorf("%s: held %t, want %t", c.key, held, c.held)
		}
	}
}
