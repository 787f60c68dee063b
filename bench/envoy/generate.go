package envoy

import (
	"fmt"
	"math/rand/v2"
	"strings"

	api "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The words of which files and requests are made. No two descriptors of them
// are written alike where their parts are joined by _, which the peer takes
// for the same bucket and Sluice does not.
var (
	keyWords   = []string{"k1", "k2", "k_x"}
	valueWords = []string{"v1", "v2", "v_1", "v_12", "w", "files/a.pdf", "files/b", "v*", "*", "naïve ☂", "10.0.0.1:80", "%~=,"}
	unitWords  = []string{"second", "minute", "hour", "day", "week", "month", "year", "MINUTE", "Hour"}
	nameWords  = []string{"alpha", "beta", "gamma"}
)

func some(r *rand.Rand, words []string) string { return words[r.IntN(len(words))] }

// one says yes once in n times.
func one(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// File writes a random file that both services accept.
func File(r *rand.Rand, domain string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\n", domain)
	writeDescriptors(&b, r, "", 0)
	return b.String()
}

func writeDescriptors(b *strings.Builder, r *rand.Rand, indent string, depth int) {
	fmt.Fprintf(b, "%sdescriptors:\n", indent)
	seen := map[string]bool{}
	for range 1 + r.IntN(6) {
		key, value := some(r, keyWords), ""
		switch r.IntN(6) {
		case 0:
		case 1:
			value = "v*"
		case 2:
			value = some(r, []string{"*", "files/*", "v_*", "w*"})
		case 3:
			if one(r, 3) {
				key = some(r, []string{"k*", "k1*", "k_*"})
				break
			}
			fallthrough
		default:
			value = some(r, valueWords)
		}
		joined := key
		if value != "" {
			joined += "_" + value
		}
		if seen[joined] {
			continue
		}
		seen[joined] = true
		fmt.Fprintf(b, "%s  - key: %q\n", indent, key)
		if value != "" {
			fmt.Fprintf(b, "%s    value: %q\n", indent, value)
		}
		for _, flag := range []string{"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric"} {
			if one(r, 8) {
				fmt.Fprintf(b, "%s    %s: true\n", indent, flag)
			}
		}
		if strings.HasSuffix(joined, "*") && one(r, 2) {
			fmt.Fprintf(b, "%s    share_threshold: true\n", indent)
		}
		if !one(r, 5) {
			writeLimit(b, r, indent+"    ")
		}
		if depth < 2 && one(r, 3) {
			writeDescriptors(b, r, indent+"    ", depth+1)
		}
	}
	if len(seen) == 0 {
		fmt.Fprintf(b, "%s  - key: k1\n", indent)
	}
}

func writeLimit(b *strings.Builder, r *rand.Rand, indent string) {
	fmt.Fprintf(b, "%srate_limit:\n", indent)
	name := ""
	if one(r, 3) {
		name = some(r, nameWords)
		fmt.Fprintf(b, "%s  name: %s\n", indent, name)
	}
	if replaced := some(r, nameWords); one(r, 5) && replaced != name {
		fmt.Fprintf(b, "%s  replaces:\n%s    - name: %s\n", indent, indent, replaced)
	}
	if one(r, 10) {
		fmt.Fprintf(b, "%s  unlimited: true\n", indent)
		return
	}
	fmt.Fprintf(b, "%s  unit: %s\n", indent, some(r, unitWords))
	requests := r.IntN(8)
	if one(r, 20) {
		requests = 1<<32 - 1
	}
	fmt.Fprintf(b, "%s  requests_per_unit: %d\n", indent, requests)
}

// Request makes a random request to one of the domains.
func Request(r *rand.Rand, domains []string) *pb.RateLimitRequest {
	q := &pb.RateLimitRequest{Domain: some(r, domains)}
	switch {
	case one(r, 200):
		q.Domain = ""
	case one(r, 50):
		q.Domain = "nowhere"
	}
	if one(r, 4) {
		q.HitsAddend = uint32(r.IntN(4))
	}
	descriptors := 1 + r.IntN(3)
	switch {
	case one(r, 200):
		descriptors = 0
	case one(r, 200):
		descriptors = 70 + r.IntN(30)
	}
	for range descriptors {
		q.Descriptors = append(q.Descriptors, descriptor(r))
	}
	return q
}

func descriptor(r *rand.Rand) *api.RateLimitDescriptor {
	d := &api.RateLimitDescriptor{}
	if one(r, 5) {
		d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(4)))
	}
	if one(r, 500) {
		d.HitsAddend = wrapperspb.UInt64(1 << r.IntN(40))
	}
	if one(r, 8) { // a limit of its own, always of one unit for each value
		unit := typev3.RateLimitUnit(1 + r.IntN(6))
		d.Entries = []*api.RateLimitDescriptor_Entry{{Key: "own", Value: fmt.Sprint(unit, r.IntN(3))}}
		d.Limit = &api.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(r.IntN(8)), Unit: unit}
		return d
	}
	for range 1 + min(r.IntN(4), r.IntN(4)) {
		e := &api.RateLimitDescriptor_Entry{Key: some(r, keyWords)}
		if !one(r, 10) {
			e.Value = some(r, valueWords)
		}
		if one(r, 100) {
			e.Value = strings.Repeat(e.Value+"long", 60+r.IntN(3))
		}
		d.Entries = append(d.Entries, e)
	}
	return d
}
