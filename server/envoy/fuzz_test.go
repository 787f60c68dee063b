package envoy_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-go/sluice/server/envoy"
)

// FuzzRequest sends any message, in both encodings: it is an error or an
// answer with a status for each descriptor.
func FuzzRequest(f *testing.F) {
	for _, q := range []*pb.RateLimitRequest{
		request("shop", d("user", "a"), d("path", "files/x"), d("nested", "a", "inner", "")),
		{Domain: "shop", HitsAddend: 1<<32 - 1, Descriptors: request("", d("user", "a"), d("user", "a")).GetDescriptors()},
	} {
		wire, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Add([]byte(`{"domain":"shop","descriptors":[{"entries":[{"key":"user"}],"limit":{"requestsPerUnit":1,"unit":"DAY"},"hitsAddend":"18446744073709551615"}]}`))
	s := open(f, manyRules, envoy.Settings{Headers: true, Metadata: true})
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, wire []byte) {
		var q pb.RateLimitRequest
		if proto.Unmarshal(wire, &q) == nil {
			answer, err := s.ShouldRateLimit(t.Context(), &q)
			if err == nil && len(answer.GetStatuses()) != len(q.GetDescriptors()) {
				t.Fatalf("%d statuses for %d descriptors", len(answer.GetStatuses()), len(q.GetDescriptors()))
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(string(wire))))
		if w.Code >= 500 {
			t.Fatalf("%d for %q", w.Code, wire)
		}
	})
}
