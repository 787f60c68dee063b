package envoy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Differ sends the same requests to both services and compares the answers.
type Differ struct {
	Peer, Ours pb.RateLimitServiceClient
	Rand       *rand.Rand
	Domains    []string
	Compared   int // requests
	Over       int // of them over the limit
}

// WriteFiles writes one random file for each domain into root/config.
func WriteFiles(r *rand.Rand, root string, domains []string) error {
	dir := filepath.Join(root, "config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range domains {
		if err := os.WriteFile(filepath.Join(dir, d+".yaml"), []byte(File(r, d)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Compare sends one random request to both. The error shows request and
// answers if they are not equal.
func (d *Differ) Compare(ctx context.Context) error {
	q := Request(d.Rand, d.Domains)
	if err := awayFromBoundary(ctx); err != nil {
		return err
	}
	began := time.Now()
	want, wantErr := d.Peer.ShouldRateLimit(ctx, q)
	got, gotErr := d.Ours.ShouldRateLimit(ctx, q)
	if time.Now().Unix() != began.Unix() {
		return ErrBoundary
	}
	d.Compared++
	if want.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		d.Over++
	}
	if wantErr != nil || gotErr != nil {
		if status.Code(wantErr) == status.Code(gotErr) && lastPart(wantErr) == lastPart(gotErr) {
			return nil
		}
		return fmt.Errorf("request %s\npeer: %w\nours: %w", prototext.Format(q), orNone(wantErr), orNone(gotErr))
	}
	normalize(want.GetDynamicMetadata())
	normalize(got.GetDynamicMetadata())
	if proto.Equal(want, got) {
		return nil
	}
	return fmt.Errorf("request %s\npeer: %s\nours: %s", prototext.Format(q), prototext.Format(want), prototext.Format(got))
}

// ErrBoundary says that a second ended while both services were asked, so
// that they may have counted in different windows from here on.
var ErrBoundary = errors.New("the machine was so busy that a window ended between the two questions")

// awayFromBoundary waits, if a second is about to end, until the next has
// begun. All windows begin with a second.
func awayFromBoundary(ctx context.Context) error {
	now := time.Now()
	fraction := now.Sub(now.Truncate(time.Second))
	var wait time.Duration
	switch {
	case fraction > 600*time.Millisecond:
		wait = time.Second - fraction + 20*time.Millisecond
	case fraction < 20*time.Millisecond:
		wait = 20*time.Millisecond - fraction
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func lastPart(err error) string { return status.Convert(err).Message() }

func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// normalize writes messages inside of metadata in one way: their text has
// spaces at random, on purpose.
func normalize(s *structpb.Struct) {
	for _, d := range s.GetFields()["descriptors"].GetListValue().GetValues() {
		if l, ok := d.GetStructValue().GetFields()["limit"]; ok {
			l.Kind = &structpb.Value_StringValue{StringValue: strings.Join(strings.Fields(l.GetStringValue()), " ")}
		}
	}
}
