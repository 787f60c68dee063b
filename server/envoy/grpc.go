package envoy

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// streamWorkers is how many requests are answered without a new goroutine.
const streamWorkers = 64

// ServerOptions returns the options that a gRPC server for Envoy should have: requests
// of at most a megabyte, and connections that end in their time, so that they
// spread over several servers again. 0 means 24 hours and one hour more for
// requests under way, as in envoyproxy/ratelimit
// (GRPC_MAX_CONNECTION_AGE, GRPC_MAX_CONNECTION_AGE_GRACE).
func ServerOptions(age, grace time.Duration) []grpc.ServerOption {
	if age == 0 {
		age = 24 * time.Hour
	}
	if grace == 0 {
		grace = time.Hour
	}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxBody),
		grpc.NumStreamWorkers(streamWorkers), // keep their stacks, which are slow to grow anew for each request
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: age, MaxConnectionAgeGrace: grace}),
	}
}
