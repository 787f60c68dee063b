package envoy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/server/envoy"
)

func environment(variables ...string) (envoy.Environment, error) {
	set := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		set[name] = value
	}
	return envoy.ReadEnvironment(func(name string) (string, bool) {
		value, ok := set[name]
		return value, ok
	})
}

func TestEnvironment(t *testing.T) {
	e, err := environment("RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "PORT=8080", "GRPC_HOST=127.0.0.1", "GRPC_PORT=9",
		"REDIS_URL=redis:6379", "REDIS_SOCKET_TYPE=tcp", "REDIS_AUTH=me:p@ss", "REDIS_TIMEOUT=2s", "SHADOW_MODE=true", "QUOTA_MODE=",
		"LIMIT_RESPONSE_HEADERS_ENABLED=1", "LIMIT_RESET_HEADER=x-reset", "NEAR_LIMIT_RATIO=0.5", "GRPC_MAX_CONNECTION_AGE=1h",
		"USE_STATSD=false", "MEMCACHE_SRV=x")
	if err != nil {
		t.Fatal(err)
	}
	want := envoy.Environment{
		Settings: envoy.Settings{Headers: true, ResetHeader: "x-reset", Shadow: true, NearLimitRatio: 0.5},
		Dir:      "/data/ratelimit/config", Listen: "0.0.0.0:8080", GRPCListen: "127.0.0.1:9",
		Store: "redis://me:p%40ss@redis:6379", StoreTimeout: 2 * time.Second, ConnectionAge: time.Hour,
	}
	if len(e.Unused) != 2 || !strings.HasPrefix(e.Unused[0], "MEMCACHE_SRV: ") || !strings.HasPrefix(e.Unused[1], "USE_STATSD: ") {
		t.Errorf("without effect: %q", e.Unused)
	}
	if e.Unused = nil; !equal(e, want) {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
}

func equal(a, b envoy.Environment) bool {
	if len(a.Unused)+len(b.Unused) > 0 {
		return false
	}
	settings := a.Settings == b.Settings
	a.Settings, b.Settings = envoy.Settings{}, envoy.Settings{}
	return settings && a.Dir == b.Dir && a.Listen == b.Listen && a.GRPCListen == b.GRPCListen && a.DebugListen == b.DebugListen &&
		a.Store == b.Store && a.StoreTimeout == b.StoreTimeout && a.ConnectionAge == b.ConnectionAge && a.Cert == b.Cert
}

func TestAddressesOfRedis(t *testing.T) {
	for _, c := range []struct{ variables, want string }{
		{"REDIS_URL=a:1 REDIS_SOCKET_TYPE=tcp", "redis://a:1"},
		{"REDIS_URL=a:1 REDIS_SOCKET_TYPE=tcp REDIS_TLS=true REDIS_AUTH=secret", "rediss://:secret@a:1"},
		{"REDIS_URL=a:1,b:2 REDIS_TYPE=CLUSTER", "redis+cluster://a:1,b:2"},
		{"REDIS_URL=main,a:1,b:2 REDIS_TYPE=sentinel REDIS_SENTINEL_AUTH=s", "redis+sentinel://a:1,b:2/main?sentinel_password=s"},
		{"REDIS_URL=main,a:1 REDIS_TYPE=sentinel REDIS_SENTINEL_AUTH=u:s", "redis+sentinel://a:1/main?sentinel_password=s&sentinel_username=u"},
		{"", ""},
	} {
		e, err := environment(strings.Fields(c.variables)...)
		if err != nil || e.Store != c.want {
			t.Errorf("%s: %s, %v, want %s", c.variables, e.Store, err, c.want)
		}
	}
}

func TestMistakesInTheEnvironment(t *testing.T) {
	for _, c := range []struct{ variables, want string }{
		{"SHADOW_MODE=maybe", `SHADOW_MODE: "maybe": want true or false`},
		{"PORT=x", `PORT: "x": want a port`},
		{"GRPC_MAX_CONNECTION_AGE=1", `GRPC_MAX_CONNECTION_AGE: "1": want a duration such as 500ms or 24h`},
		{"NEAR_LIMIT_RATIO=2", `NEAR_LIMIT_RATIO: "2": want a number above 0 and at most 1`},
		{"REDIS_URL=/run/redis.sock", "REDIS_SOCKET_TYPE"},
		{"REDIS_URL=a REDIS_TYPE=sentinel", "REDIS_URL"},
		{"REDIS_URL=a REDIS_TYPE=odd", "REDIS_TYPE"},
		{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT"},
	} {
		if _, err := environment(strings.Fields(c.variables)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.variables, err, c.want)
		}
	}
}
