package dynamodb

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
)

// Config configures the connections of a job. Only Address is required.
type Config struct {
	// Address says which table:
	//
	//	dynamodb://table[?region=eu-west-1][&endpoint=http://127.0.0.1:8000]
	//
	// Credentials, and what the address leaves out, come from the usual places
	// of the AWS SDK: the environment, its files, the role of the machine.
	Address string

	// TLS is used for an endpoint with a private authority. Nil trusts what the
	// system and AWS_CA_BUNDLE trust.
	TLS *tls.Config

	// Timeout is how long one operation may take, with all its requests. After
	// that it may or may not have happened. 0 means 2 s.
	Timeout time.Duration

	// Log gets the few lines a store writes. Nil means slog.Default.
	Log *slog.Logger

	// Clock replaces this machine's time, for tests.
	Clock func() time.Time
}

// DefaultTimeout is how long an operation may take if [Config] does not say.
const DefaultTimeout = 2 * time.Second

func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute {
		return c, fmt.Errorf("dynamodb: Timeout: %s: must be between 10ms and 1m", c.Timeout)
	}
	return c, nil
}
