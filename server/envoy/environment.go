package envoy

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Environment holds the settings of envoyproxy/ratelimit's environment
// variables that Sluice supports. Fields of variables that are not set are
// zero.
type Environment struct {
	Settings Settings

	// Dir is the folder of the files: RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and
	// RUNTIME_APPDIRECTORY.
	Dir string

	// Listen, GRPCListen and DebugListen are addresses: HOST and PORT and
	// the same with GRPC_ and DEBUG_.
	Listen, GRPCListen, DebugListen string

	// Store is the address of the store as package redis takes it:
	// REDIS_TYPE, REDIS_URL, REDIS_AUTH, REDIS_SENTINEL_AUTH and REDIS_TLS.
	Store string

	// StoreTimeout is REDIS_TIMEOUT.
	StoreTimeout time.Duration

	// StoreCA, StoreCert and StoreKey are files for TLS to Redis, and
	// StoreAnyHost leaves the name in its certificate unchecked:
	// REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY,
	// REDIS_TLS_SKIP_HOSTNAME_VERIFICATION.
	StoreCA, StoreCert, StoreKey string
	StoreAnyHost                 bool

	// Cert and Key are files for TLS on gRPC, ClientCA the authority of its
	// clients, ClientName the name they must have: GRPC_SERVER_USE_TLS,
	// GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT,
	// GRPC_CLIENT_TLS_SAN.
	Cert, Key, ClientCA, ClientName string

	// ConnectionAge and ConnectionGrace are for [ServerOptions].
	ConnectionAge, ConnectionGrace time.Duration

	// LogLevel and LogFormat are LOG_LEVEL and LOG_FORMAT.
	LogLevel, LogFormat string

	// Unused names the variables that are set and have no effect here, with
	// the reason, for the log at start.
	Unused []string
}

// reader reads variables and keeps the first mistake.
type reader struct {
	lookup func(string) (string, bool)
	err    error
}

func (r *reader) text(name string) string {
	value, _ := r.lookup(name)
	return value
}

func (r *reader) wrong(name, value, want string) {
	r.err = cmp.Or(r.err, fmt.Errorf("%s: %q: want %s", name, value, want))
}

func (r *reader) yes(name string) bool {
	value := r.text(name)
	if value == "" {
		return false
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		r.wrong(name, value, "true or false")
	}
	return b
}

func (r *reader) duration(name string) time.Duration {
	value := r.text(name)
	if value == "" {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		r.wrong(name, value, "a duration such as 500ms or 24h")
	}
	return d
}

// address is a host and a port, or "" if neither is set.
func (r *reader) address(prefix, port string) string {
	h, p := r.text(prefix+"HOST"), r.text(prefix+"PORT")
	if h == "" && p == "" {
		return ""
	}
	p = cmp.Or(p, port)
	if _, err := strconv.ParseUint(p, 10, 16); err != nil {
		r.wrong(prefix+"PORT", p, "a port")
	}
	return net.JoinHostPort(cmp.Or(h, "0.0.0.0"), p)
}

// ReadEnvironment reads the variables of envoyproxy/ratelimit, with lookup as
// [os.LookupEnv]. Variables that are set but empty count as not set.
func ReadEnvironment(lookup func(name string) (string, bool)) (Environment, error) {
	r := &reader{lookup: lookup}
	e := Environment{
		Settings: Settings{
			Headers:         r.yes("LIMIT_RESPONSE_HEADERS_ENABLED"),
			LimitHeader:     r.text("LIMIT_LIMIT_HEADER"),
			RemainingHeader: r.text("LIMIT_REMAINING_HEADER"),
			ResetHeader:     r.text("LIMIT_RESET_HEADER"),
			Shadow:          r.yes("SHADOW_MODE"),
			Quota:           r.yes("QUOTA_MODE"),
			Metadata:        r.yes("RESPONSE_DYNAMIC_METADATA"),
			MergeDomains:    r.yes("MERGE_DOMAIN_CONFIG"),
			StopCounting:    r.yes("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"),
			KeyPrefix:       r.text("CACHE_KEY_PREFIX"),
			IgnoreDotFiles:  r.yes("RUNTIME_IGNOREDOTFILES"),
			NeedDomain:      r.yes("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"),
		},
		Listen:          r.address("", "8080"),
		GRPCListen:      r.address("GRPC_", "8081"),
		DebugListen:     r.address("DEBUG_", "6070"),
		ConnectionAge:   r.duration("GRPC_MAX_CONNECTION_AGE"),
		ConnectionGrace: r.duration("GRPC_MAX_CONNECTION_AGE_GRACE"),
		LogLevel:        r.text("LOG_LEVEL"),
		LogFormat:       r.text("LOG_FORMAT"),
	}
	if ratio := r.text("NEAR_LIMIT_RATIO"); ratio != "" {
		n, err := strconv.ParseFloat(ratio, 32)
		if err != nil || n <= 0 || n > 1 {
			r.wrong("NEAR_LIMIT_RATIO", ratio, "a number above 0 and at most 1")
		}
		e.Settings.NearLimitRatio = float32(n)
	}
	if root := r.text("RUNTIME_ROOT"); root != "" {
		e.Dir = filepath.Join(root, r.text("RUNTIME_SUBDIRECTORY"), cmp.Or(r.text("RUNTIME_APPDIRECTORY"), "config"))
		e.Settings.PlainNames = r.text("RUNTIME_WATCH_ROOT") != "" && !r.yes("RUNTIME_WATCH_ROOT")
	}
	e.readTLS(r)
	e.readStore(r)
	e.Unused = r.unused()
	return e, r.err
}

func (e *Environment) readTLS(r *reader) {
	if !r.yes("GRPC_SERVER_USE_TLS") {
		return
	}
	e.Cert, e.Key = r.text("GRPC_SERVER_TLS_CERT"), r.text("GRPC_SERVER_TLS_KEY")
	e.ClientCA, e.ClientName = r.text("GRPC_CLIENT_TLS_CACERT"), r.text("GRPC_CLIENT_TLS_SAN")
	if e.Cert == "" || e.Key == "" {
		r.wrong("GRPC_SERVER_USE_TLS", "true", "GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY set too")
	}
}

// readStore writes the Redis as one address.
func (e *Environment) readStore(r *reader) {
	servers := r.text("REDIS_URL")
	if servers == "" {
		return
	}
	kind := strings.ToLower(cmp.Or(r.text("REDIS_TYPE"), "single"))
	if kind == "single" && strings.ToLower(cmp.Or(r.text("REDIS_SOCKET_TYPE"), "unix")) != "tcp" {
		r.wrong("REDIS_SOCKET_TYPE", r.text("REDIS_SOCKET_TYPE"), "tcp; Redis behind a socket file is not supported")
		return
	}
	scheme := "redis"
	if r.yes("REDIS_TLS") {
		scheme = "rediss"
		e.StoreCA, e.StoreCert, e.StoreKey = r.text("REDIS_TLS_CACERT"), r.text("REDIS_TLS_CLIENT_CERT"), r.text("REDIS_TLS_CLIENT_KEY")
		e.StoreAnyHost = r.yes("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")
	}
	user := ""
	if auth := r.text("REDIS_AUTH"); auth != "" {
		user = credentials(auth).String() + "@"
	}
	list := strings.Split(servers, ",")
	switch kind {
	case "single":
		e.Store = scheme + "://" + user + servers
	case "cluster":
		e.Store = scheme + "+cluster://" + user + servers
	case "sentinel":
		if len(list) < 2 {
			r.wrong("REDIS_URL", servers, "the name of the primary and the Sentinels, separated by commas")
			return
		}
		e.Store = scheme + "+sentinel://" + user + strings.Join(list[1:], ",") + "/" + url.PathEscape(list[0])
		if auth := r.text("REDIS_SENTINEL_AUTH"); auth != "" {
			c, q := credentials(auth), url.Values{}
			if password, _ := c.Password(); password != "" {
				q.Set("sentinel_password", password)
			}
			if c.Username() != "" {
				q.Set("sentinel_username", c.Username())
			}
			e.Store += "?" + q.Encode()
		}
	default:
		r.wrong("REDIS_TYPE", kind, "single, sentinel or cluster")
	}
	e.StoreTimeout = r.duration("REDIS_TIMEOUT")
}

// credentials are written as "password" or "user:password".
func credentials(auth string) *url.Userinfo {
	user, password, both := strings.Cut(auth, ":")
	if !both {
		return url.UserPassword("", user)
	}
	return url.UserPassword(user, password)
}

// without are the variables that have no effect here, and why.
var without = map[string]string{
	"BACKEND_TYPE":                           "the store is chosen by its address",
	"CONFIG_TYPE":                            "the limits are read from files",
	"DISABLE_STATS":                          "metrics are for Prometheus, and cost nothing unless they are read",
	"EXPIRATION_JITTER_MAX_SECONDS":          "buckets expire with their window",
	"EXTRA_TAGS":                             "metrics are for Prometheus, which adds labels itself",
	"FORCE_START_WITHOUT_INITIAL_CONFIG":     "the limits are read from files, which are there at the start",
	"GRPC_UDS":                               "gRPC is served on an address",
	"LOCAL_CACHE_SIZE_IN_BYTES":              "answers do not depend on it; hold: true is faster",
	"PROMETHEUS_ADDR":                        "metrics are served with the others",
	"PROMETHEUS_MAPPER_YAML":                 "metrics have the names and labels of the default mapping",
	"PROMETHEUS_PATH":                        "metrics are served with the others",
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION":   "readiness asks the store",
	"REDIS_PERSECOND":                        "one store keeps all limits",
	"REDIS_PIPELINE_LIMIT":                   "takes are combined without being told",
	"REDIS_PIPELINE_WINDOW":                  "takes are combined without being told",
	"REDIS_POOL_ON_EMPTY_BEHAVIOR":           "connections are shared, not borrowed",
	"REDIS_POOL_SIZE":                        "connections are shared, not borrowed",
	"STATSD_HOST":                            "metrics are for Prometheus",
	"STATSD_PORT":                            "metrics are for Prometheus",
	"STATS_FLUSH_INTERVAL":                   "metrics are for Prometheus",
	"TRACING_ENABLED":                        "tracing is set up by the variables of OpenTelemetry",
	"TRACING_EXPORTER_PROTOCOL":              "tracing is set up by the variables of OpenTelemetry",
	"TRACING_SAMPLING_RATE":                  "tracing is set up by the variables of OpenTelemetry",
	"TRACING_SERVICE_INSTANCE_ID":            "tracing is set up by the variables of OpenTelemetry",
	"TRACING_SERVICE_NAME":                   "tracing is set up by the variables of OpenTelemetry",
	"TRACING_SERVICE_NAMESPACE":              "tracing is set up by the variables of OpenTelemetry",
	"USE_DOG_STATSD":                         "metrics are for Prometheus",
	"USE_DOG_STATSD_MOGRIFIERS":              "metrics are for Prometheus",
	"USE_PROMETHEUS":                         "metrics are served with the others",
	"USE_STATSD":                             "metrics are for Prometheus",
	"REDIS_PERSECOND_AUTH":                   "one store keeps all limits",
	"REDIS_PERSECOND_PIPELINE_LIMIT":         "one store keeps all limits",
	"REDIS_PERSECOND_PIPELINE_WINDOW":        "one store keeps all limits",
	"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR": "one store keeps all limits",
	"REDIS_PERSECOND_POOL_SIZE":              "one store keeps all limits",
	"REDIS_PERSECOND_SENTINEL_AUTH":          "one store keeps all limits",
	"REDIS_PERSECOND_SOCKET_TYPE":            "one store keeps all limits",
	"REDIS_PERSECOND_TIMEOUT":                "one store keeps all limits",
	"REDIS_PERSECOND_TLS":                    "one store keeps all limits",
	"REDIS_PERSECOND_TYPE":                   "one store keeps all limits",
	"REDIS_PERSECOND_URL":                    "one store keeps all limits",
}

// prefixes are those of further variables without effect.
var prefixes = map[string]string{
	"CONFIG_GRPC_XDS_": "limits are not fetched by xDS",
	"XDS_CLIENT_":      "limits are not fetched by xDS",
	"MEMCACHE_":        "Memcached cannot count exactly, and is not supported",
}

// prefixed are the names that begin so, as nothing else can list them.
var prefixed = []string{
	"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
	"CONFIG_GRPC_XDS_NODE_ID", "CONFIG_GRPC_XDS_NODE_METADATA", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
	"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "CONFIG_GRPC_XDS_SERVER_TLS_SAN", "CONFIG_GRPC_XDS_SERVER_URL", "CONFIG_GRPC_XDS_SERVER_USE_TLS",
	"MEMCACHE_HOST_PORT", "MEMCACHE_MAX_IDLE_CONNS", "MEMCACHE_SRV", "MEMCACHE_SRV_REFRESH", "MEMCACHE_TLS", "MEMCACHE_TLS_CACERT",
	"MEMCACHE_TLS_CLIENT_CERT", "MEMCACHE_TLS_CLIENT_KEY", "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
	"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "XDS_CLIENT_BACKOFF_JITTER", "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
	"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
}

// unused are the variables that are set and have no effect, sorted.
func (r *reader) unused() (all []string) {
	for name, why := range without {
		if r.text(name) != "" {
			all = append(all, name+": "+why)
		}
	}
	for _, name := range prefixed {
		for prefix, why := range prefixes {
			if strings.HasPrefix(name, prefix) && r.text(name) != "" {
				all = append(all, name+": "+why)
			}
		}
	}
	slices.Sort(all)
	return all
}
