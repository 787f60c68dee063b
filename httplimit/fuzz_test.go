package httplimit

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-go/sluice"
)

// Whatever an upstream sends, no pause is negative or endless.
func FuzzUpstreamHeaders(f *testing.F) {
	f.Add(`"a";r=1;t=2`, `"a";q=5`, "3", "60")
	f.Add(`"a";r=-1;t=-2, "b"`, `"a";q="x"`, "Wed, 21 Oct 2015 07:28:00 GMT", "1e9")
	f.Add("((", ",", "-5", "99999999999999999999")
	now := time.Now()
	f.Fuzz(func(t *testing.T, limit, policy, retry, plain string) {
		for _, h := range []http.Header{
			{"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "Retry-After": {retry}},
			{"Ratelimit-Limit": {limit}, "Ratelimit-Remaining": {plain}, "Ratelimit-Reset": {retry}},
			{"X-Ratelimit-Limit": {plain}, "X-Ratelimit-Remaining": {plain}, "X-Ratelimit-Reset": {plain}, "Date": {retry}},
		} {
			u := readUpstream(&http.Response{Header: h}, now)
			if u.retry < 0 || u.reset < 0 || u.exhausted && u.scarce {
				t.Errorf("%v: %+v", h, u)
			}
			demands := []sluice.Demand{{Limit: sluice.Per(10, time.Second)}}
			if u.scarce && !(spread(u, demands) > 0) {
				t.Errorf("%v: a pace of %v", h, spread(u, demands))
			}
		}
	})
}

// Whatever a limit is called, the header is a structured field that says so.
func FuzzPolicyHeader(f *testing.F) {
	f.Add("global")
	f.Add("a\"b\\c\x00é")
	f.Fuzz(func(t *testing.T, name string) {
		limit := sluice.Per(10, time.Second).WithBurst(20)
		list, err := httpsfv.UnmarshalList([]string{string(appendQuota(appendName(nil, name), &limit))})
		if err != nil || len(list) != 1 {
			t.Fatalf("%q: %v", name, err)
		}
		item := list[0].(httpsfv.Item)
		q, _ := item.Params.Get("q")
		w, _ := item.Params.Get("w")
		if q != int64(20) || w != int64(2) {
			t.Errorf("%q: q=%v w=%v", name, q, w)
		}
	})
}
