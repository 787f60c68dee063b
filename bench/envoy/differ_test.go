package envoy_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/server/envoy"

	bench "github.com/sluice-go/sluice/bench/envoy"
	"github.com/sluice-go/sluice/bench/redisserver"
	"github.com/sluice-go/sluice/redis/limitstore"
)

var peer string // the program

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bench.WorkerCommand {
		if err := bench.Worker(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-envoy-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if peer, err = bench.BuildPeer(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func startRedis(t *testing.T) string {
	t.Helper()
	s, err := redisserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Address
}

// serve runs our service in this process, with package advance in front of
// the store as the real server has it: of these limits nothing may be held.
func serve(t *testing.T, address, root string, settings envoy.Settings) string {
	t.Helper()
	inner, err := limitstore.Open(t.Context(), redis.Config{Address: "redis://" + address})
	if err != nil {
		t.Fatal(err)
	}
	store, err := advance.New(inner, advance.Config{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := envoy.Open(envoy.Config{
		Limiter: sluice.New(store), Exact: sluice.New(inner), Dir: filepath.Join(root, "config"), Settings: settings, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(envoy.ServerOptions(0, 0)...)
	service.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(func() {
		server.Stop()
		service.Close()
		store.Close()
	})
	return listener.Addr().String()
}

// differ starts both services on the files in root.
func differ(t *testing.T, r *rand.Rand, root, redisAddress string, domains []string, settings envoy.Settings, env ...string) *bench.Differ {
	t.Helper()
	theirs, err := bench.StartPeer(peer, root, redisAddress, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	d := &bench.Differ{Rand: r, Domains: domains}
	for address, client := range map[string]*bench.ServiceClient{theirs.Address: &d.Peer, serve(t, redisAddress, root, settings): &d.Ours} {
		conn, err := bench.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		*client = bench.Client(conn)
	}
	return d
}

// TestADifferenceIsNoticed sets the two services up differently, in a way
// that shows only after requests were refused.
func TestADifferenceIsNoticed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	root, domains := t.TempDir(), []string{"a", "b", "c"}
	if err := bench.WriteFiles(r, root, domains); err != nil {
		t.Fatal(err)
	}
	d := differ(t, r, root, startRedis(t), domains, envoy.Settings{StopCounting: true})
	for range 3000 {
		if err := d.Compare(t.Context()); err != nil && !errors.Is(err, bench.ErrBoundary) {
			t.Logf("after %d requests: %.200s", d.Compared, err)
			return
		}
	}
	t.Error("nothing was noticed")
}

// TestAnswersAreEqual sends random requests under random files to both
// services, in each way they can be set up.
func TestAnswersAreEqual(t *testing.T) {
	redisAddress := startRedis(t)
	for _, c := range []struct {
		name     string
		settings envoy.Settings
		env      []string
	}{
		{"plain", envoy.Settings{}, nil},
		{"headers and metadata", envoy.Settings{Headers: true, ResetHeader: "X-Reset", Metadata: true},
			[]string{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Reset", "RESPONSE_DYNAMIC_METADATA=true"}},
		{"shadow", envoy.Settings{Shadow: true, Headers: true}, []string{"SHADOW_MODE=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true"}},
		{"quota", envoy.Settings{Quota: true, Headers: true, Metadata: true},
			[]string{"QUOTA_MODE=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true"}},
		{"stop counting", envoy.Settings{StopCounting: true}, []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			var domains []string
			for i := range 12 {
				domains = append(domains, fmt.Sprintf("%s%d", string(c.name[0]), i))
			}
			root := t.TempDir()
			if err := bench.WriteFiles(r, root, domains); err != nil {
				t.Fatal(err)
			}
			prefix := fmt.Sprintf("%x", seed)
			c.settings.KeyPrefix = prefix
			d := differ(t, r, root, redisAddress, domains, c.settings, append(c.env, "CACHE_KEY_PREFIX="+prefix)...)
			for range 1500 {
				if err := d.Compare(t.Context()); errors.Is(err, bench.ErrBoundary) {
					t.Logf("after %d requests: %v", d.Compared, err)
					break
				} else if err != nil {
					t.Fatalf("after %d requests: %v", d.Compared, err)
				}
			}
			if d.Compared < 100 || d.Over < d.Compared/50 && !c.settings.Shadow && !c.settings.Quota {
				t.Errorf("%d of %d requests were over the limit: that is hardly a test", d.Over, d.Compared)
			}
			t.Logf("%d requests compared, %d over the limit", d.Compared, d.Over)
		})
	}
}
