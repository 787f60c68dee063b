package envoy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/server/envoy"
)

// WorkerCommand is the first argument of a process that serves.
const WorkerCommand = "envoy-server"

// Worker serves until it is told to end: our service, or one that always says
// OK.
func Worker(args []string) (err error) {
	flags := flag.NewFlagSet(WorkerCommand, flag.ContinueOnError)
	root := flags.String("root", "", "folder above that of the files; none for a server that always says OK")
	address := flags.String("redis", "", "host and port")
	listen := flags.String("listen", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	server := grpc.NewServer(envoy.ServerOptions(0, 0)...)
	if *root == "" {
		pb.RegisterRateLimitServiceServer(server, yes{})
		h := health.NewServer()
		h.SetServingStatus("ratelimit", healthpb.HealthCheckResponse_SERVING)
		healthpb.RegisterHealthServer(server, h)
	} else {
		inner, err := limitstore.Open(ctx, redis.Config{Address: "redis://" + *address})
		if err != nil {
			return err
		}
		store, err := advance.New(inner, advance.Config{})
		if err != nil {
			return errors.Join(err, inner.Close())
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		service, err := envoy.Open(envoy.Config{
			Limiter: sluice.New(store), Exact: sluice.New(inner), Dir: filepath.Join(*root, "config"), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, service.Close()) }()
		service.Register(server)
	}
	context.AfterFunc(ctx, server.GracefulStop)
	return server.Serve(listener)
}

// yes is the least a service can do.
type yes struct {
	pb.UnimplementedRateLimitServiceServer
}

func (yes) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// StartOurs starts a worker: on the files in root/config, or, without a root,
// one that always says OK.
func StartOurs(root, redis string) (*Server, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + ports[0]
	cmd := exec.Command(self, WorkerCommand, "-root", root, "-redis", redis, "-listen", address)
	s, err := start(cmd, address, "", "ratelimit")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", WorkerCommand, err)
	}
	return s, nil
}
