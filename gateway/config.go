package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/once"
)

// Config configures a [Gateway].
type Config struct {
	// Upstream is where requests go: http, https, or h2c for HTTP/2 without
	// TLS. A path in it is put before that of the request.
	Upstream string

	// Gate decides who passes. It stays the caller's to close.
	Gate *httplimit.Gate

	// Inner, if set, wraps the proxy inside the gate, for what is done to
	// requests that pass, such as [httplimit.Idempotent].
	Inner func(http.Handler) http.Handler

	// MaxBody is the largest request body in bytes. 0 means 10 MiB, and -1
	// no bound.
	MaxBody int64

	// MaxHeader is the largest request header in bytes. 0 means 64 KiB.
	MaxHeader int

	// ConnectTimeout is how long connecting to the upstream may take. 0
	// means 5 s.
	ConnectTimeout time.Duration

	// ResponseTimeout is how long the upstream may take to begin its answer.
	// 0 means 60 s. How long the answer then takes is not bounded.
	ResponseTimeout time.Duration

	// StallTimeout is how long a client may take to send or to receive
	// nothing at all, while something is due. 0 means 60 s.
	StallTimeout time.Duration

	// MinBodyRate is how many bytes a second a client must send of its body, on
	// average and after StallTimeout. Time in which the upstream does not read
	// does not count, nor do streams of gRPC. 0 means 128, and -1 any rate.
	MinBodyRate int

	// IdleTimeout is how long connections without requests are kept, on both
	// sides. 0 means 90 s.
	IdleTimeout time.Duration

	// TLS is for connections to the upstream. Nil means the defaults.
	TLS *tls.Config

	// Log gets what goes wrong, with the id of the request. Nil means
	// slog.Default.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = 10 << 20
	}
	if c.MaxHeader == 0 {
		c.MaxHeader = 64 << 10
	}
	if c.MinBodyRate == 0 {
		c.MinBodyRate = 128
	}
	for _, d := range [...]struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.ConnectTimeout, 5 * time.Second}, {&c.ResponseTimeout, time.Minute},
		{&c.StallTimeout, time.Minute}, {&c.IdleTimeout, 90 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func (c *Config) validate() error {
	bad := func(field string, value any, reason string) error {
		return &sluice.FieldError{Field: "gateway." + field, Value: value, Reason: reason}
	}
	if c.Gate == nil {
		return bad("gate", nil, "must be set")
	}
	if c.MaxBody < -1 {
		return bad("max_body", c.MaxBody, "must be a number of bytes, 0 for 10 MiB or -1 for no bound")
	}
	if c.MinBodyRate < -1 || c.MinBodyRate > 1<<30 {
		return bad("min_body_rate", c.MinBodyRate, "must be a number of bytes a second, 0 for 128 or -1 for any rate")
	}
	if c.MaxHeader < 1<<10 || c.MaxHeader > 16<<20 {
		return bad("max_header", c.MaxHeader, "must be from 1 KiB to 16 MiB")
	}
	for name, d := range map[string]time.Duration{
		"connect_timeout": c.ConnectTimeout, "response_timeout": c.ResponseTimeout,
		"stall_timeout": c.StallTimeout, "idle_timeout": c.IdleTimeout,
	} {
		if d < time.Millisecond || d > 24*time.Hour {
			return bad(name, d, "must be from 1 ms to a day")
		}
	}
	return nil
}

// upstream reads the address of the upstream, and reports whether it speaks
// HTTP/2 without TLS.
func (c *Config) upstream() (*url.URL, bool, error) {
	u, err := url.Parse(c.Upstream)
	if err == nil && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c") {
		err = fmt.Errorf("no host, or an unknown scheme")
	}
	if err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		err = fmt.Errorf("a user, query or fragment")
	}
	if err != nil {
		return nil, false, &sluice.FieldError{Field: "gateway.upstream", Value: c.Upstream, Reason: "must be an address such as http://127.0.0.1:8080, with http, https or h2c"}
	}
	h2c := u.Scheme == "h2c"
	if h2c {
		u.Scheme = "http"
	}
	return u, h2c, nil
}

// transport speaks to the upstream. It sends no write twice, and asks for no
// compression of its own, so that bodies pass as they are.
func (c *Config) transport(h2c bool) once.Transport {
	protocols := new(http.Protocols)
	if h2c {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	return once.Transport{HTTP2: h2c, Base: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       c.TLS,
		TLSHandshakeTimeout:   c.ConnectTimeout,
		ResponseHeaderTimeout: c.ResponseTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       c.IdleTimeout,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   1024, // there is one host
		DisableCompression:    true,
		Protocols:             protocols,
	}}
}
