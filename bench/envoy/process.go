package envoy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// BuildPeer builds envoyproxy/ratelimit into a folder and answers where. The
// first time takes a few minutes; the build cache then has it.
func BuildPeer(dir string) (string, error) {
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("envoy: the source of the peer is not known")
	}
	program := filepath.Join(dir, "peer")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join(filepath.Dir(here), "peer")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("envoy: building the peer: %w\n%s", err, out)
	}
	return program, nil
}

// Server is a rate limit service in a process of its own.
type Server struct {
	Address string // of gRPC
	HTTP    string // of /json

	cmd   *exec.Cmd
	ended chan struct{}
	said  output
}

// output keeps what a process says. It is written and read at once.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// StartPeer starts the peer on the files in root/config, with a Redis and
// further settings.
func StartPeer(program, root, redis string, settings ...string) (*Server, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(),
		"HOST=127.0.0.1", "PORT="+ports[0], "GRPC_HOST=127.0.0.1", "GRPC_PORT="+ports[1],
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+ports[2],
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=.", "RUNTIME_APPDIRECTORY=config",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis, "USE_STATSD=false", "LOG_LEVEL=ERROR")
	cmd.Env = append(cmd.Env, settings...)
	return start(cmd, "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[0], "ratelimit")
}

// start runs a command and waits until it says that it is healthy.
func start(cmd *exec.Cmd, address, http, service string) (*Server, error) {
	s := &Server{Address: address, HTTP: http, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait() //nolint:errcheck // that it ended is what counts
		close(s.ended)
	}()
	if err := s.ready(service); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, s.said.String()), s.Close())
	}
	return s, nil
}

// Said is what the process has written.
func (s *Server) Said() string { return s.said.String() }

func (s *Server) ready(service string) error {
	conn, err := Dial(s.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err == nil && answer.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("the server ended at once")
		case <-ctx.Done():
			return errors.New("the server does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Close ends the process.
func (s *Server) Close() error {
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		err = errors.Join(err, s.cmd.Process.Kill())
		<-s.ended
	}
	return err
}

// Dial opens a client connection.
func Dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// ServiceClient is a client of a rate limit service.
type ServiceClient = pb.RateLimitServiceClient

// Client is one on a connection.
func Client(conn *grpc.ClientConn) pb.RateLimitServiceClient {
	return pb.NewRateLimitServiceClient(conn)
}

// freePorts are ports of the loopback interface that nobody uses at the
// moment.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
