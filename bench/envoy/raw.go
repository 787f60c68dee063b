package envoy

import (
	"context"
	"fmt"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// The callers share the machine with the servers, so they work as little as
// they can: requests are encoded before, and of an answer only the code is
// looked at.

// encoded is a request or an answer as bytes.
type encoded struct{ bytes []byte }

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*encoded).bytes)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	e := v.(*encoded)
	e.bytes = append(e.bytes[:0], make([]byte, data.Len())...)
	data.CopyTo(e.bytes)
	return nil
}

// code is the overall code, which is written first.
func (e *encoded) code() (pb.RateLimitResponse_Code, error) {
	if len(e.bytes) < 2 || e.bytes[0] != 1<<3 {
		return 0, fmt.Errorf("an answer of %d bytes begins with no code", len(e.bytes))
	}
	return pb.RateLimitResponse_Code(e.bytes[1]), nil
}

func encode(q *pb.RateLimitRequest) (*encoded, error) {
	bytes, err := proto.Marshal(q)
	return &encoded{bytes}, err
}

func ask(ctx context.Context, conn *grpc.ClientConn, q, answer *encoded) error {
	return conn.Invoke(ctx, pb.RateLimitService_ShouldRateLimit_FullMethodName, q, answer, grpc.ForceCodecV2(rawCodec{}))
}
