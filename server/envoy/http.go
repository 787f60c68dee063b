package envoy

import (
	"errors"
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is how large a request may be, on gRPC too.
const maxBody = 1 << 20

// serveJSON answers a request written in JSON: 200, 429 if it is over the
// limit, 400 if it makes no sense.
func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		fail(w, http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		fail(w, http.StatusBadRequest)
		return
	}
	var request pb.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		s.log.Debug("envoy: /json", "error", err)
		fail(w, http.StatusBadRequest)
		return
	}
	response, err := s.ShouldRateLimit(r.Context(), &request)
	if err != nil {
		s.log.Warn("envoy: /json", "error", err)
		if c := status.Code(err); c == codes.Unknown {
			fail(w, http.StatusBadRequest)
		} else {
			fail(w, http.StatusServiceUnavailable)
		}
		return
	}
	out, err := protojson.Marshal(response)
	if err != nil { // a string that is not UTF-8
		fail(w, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	w.Write(out) //nolint:errcheck // the client is gone
}

func fail(w http.ResponseWriter, code int) {
	http.Error(w, http.StatusText(code), code)
}

// serveHealth answers 200 while the service is healthy, and 500 otherwise.
func (s *Service) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if !s.healthy() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "OK") //nolint:errcheck // the client is gone
}
