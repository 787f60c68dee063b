package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/sqlite"
)

// database is where a node keeps something, and how to connect to it.
type database struct {
	flag              string // store or catalog
	address           string
	ca, cert, certKey string
	conns             int
	replica           string
	replicas          int // of Redis, that must acknowledge takes of critical limits
}

func (d *database) define(f *pflag.FlagSet, flag, address, usage string) {
	d.flag = flag
	f.StringVar(&d.address, flag, address, usage)
}

// connecting defines the flags about connections.
func (d *database) connecting(f *pflag.FlagSet) {
	f.IntVar(&d.conns, d.flag+"-conns", 0, "`number` of connections at most, of each job: for PostgreSQL (default pool_max_conns "+
		"in the address, or 10), for Redis 1, 2, 4 … 64 to each server (default 1)")
	f.StringVar(&d.ca, d.flag+"-ca", "", "`file` with certificates of the authorities to trust for --"+d.flag)
	f.StringVar(&d.cert, d.flag+"-cert", "", "`file` with a certificate to present to --"+d.flag+"; a new one is used as it comes")
	f.StringVar(&d.certKey, d.flag+"-cert-key", "", "`file` with the key of that certificate")
}

func (d *database) isPostgres() bool {
	return strings.HasPrefix(d.address, "postgres://") || strings.HasPrefix(d.address, "postgresql://")
}

// isFile reports whether it is a file of SQLite.
func (d *database) isFile() bool {
	return d.flag != "store" && d.address != "" && !d.isPostgres() && !strings.HasPrefix(d.address, "redis")
}

func (d *database) redis(log *slog.Logger) (redis.Config, error) {
	config := redis.Config{Address: d.address, Conns: d.conns, Replicas: d.replicas, Replica: d.replica, Log: log}
	var err error
	if d.ca != "" || d.cert != "" || d.certKey != "" {
		config.TLS, err = clientTLS(d.flag+"-", d.ca, d.cert, d.certKey, log)
	}
	return config, err
}

func (d *database) dynamodb(log *slog.Logger) (dynamodb.Config, error) {
	config := dynamodb.Config{Address: d.address, Log: log}
	if d.conns != 0 {
		return config, fmt.Errorf("--%[1]s-conns: DynamoDB gets as many connections as it needs", d.flag)
	}
	var err error
	if d.ca != "" || d.cert != "" || d.certKey != "" {
		config.TLS, err = clientTLS(d.flag+"-", d.ca, d.cert, d.certKey, log)
	}
	return config, err
}

func (d *database) postgres(migrate string, log *slog.Logger) (postgres.Config, error) {
	config := postgres.Config{Address: d.address, Replica: d.replica, MaxConns: d.conns, NoMigrate: migrate == "off", Log: log}
	var err error
	if d.ca != "" || d.cert != "" || d.certKey != "" {
		config.TLS, err = clientTLS(d.flag+"-", d.ca, d.cert, d.certKey, log)
	}
	return config, err
}

func (d *database) sqlite(ctx context.Context, migrate string) (*sqlite.DB, error) {
	if strings.HasPrefix(d.address, "dynamodb:") {
		return nil, fmt.Errorf("--%s %q: DynamoDB keeps buckets only (--store): give a file, or postgres://…", d.flag, d.address)
	}
	if d.conns != 0 || d.ca != "" || d.cert != "" || d.certKey != "" {
		return nil, fmt.Errorf("--%[1]s %[2]q: is a file: --%[1]s-conns, --%[1]s-ca and --%[1]s-cert are for PostgreSQL", d.flag, d.address)
	}
	path, err := filepath.Abs(d.address)
	if err != nil {
		return nil, err
	}
	if migrate == "off" {
		return sqlite.OpenCurrent(ctx, path)
	}
	return sqlite.Open(ctx, path)
}

// leastMemory is the least that a process needs to be not always short of it.
const leastMemory = 64 << 20

// check reports settings that would have no effect, or none that anybody wants.
// said reports which flags were given.
func (p *places) check(said func(flag string) bool) error {
	inMemory := p.store.address == "memory" || strings.HasPrefix(p.store.address, "memory:")
	for _, about := range []struct {
		ignored bool
		flags   []string
		why     string
	}{
		{inMemory, []string{"store-conns", "store-ca", "store-cert", "store-cert-key", "store-replica", "store-replicas"}, "is for a --store of Redis or PostgreSQL, and it is " + p.store.address},
		{!inMemory, []string{"memory-buckets", "memory-bytes"}, "is for a --store in memory, and it is " + redacted(p.store.address)},
		{p.replays.address == "", []string{"replays-conns", "replays-ca", "replays-cert", "replays-cert-key"}, "is about --replays, which is not given"},
		{p.memoryBuckets <= 0, []string{"memory-buckets"}, "must be above 0; leave it out for 5 million"},
		{p.memoryBytes <= 0, []string{"memory-bytes"}, "must be above 0; leave it out for 512 MiB"},
		{p.processMemory < leastMemory, []string{"process-memory"}, fmt.Sprintf("must be at least %d (64 MiB): with less, memory would always be short", leastMemory)},
	} {
		for _, flag := range about.flags {
			if about.ignored && said(flag) {
				return fmt.Errorf("--%s: %s", flag, about.why)
			}
		}
	}
	return nil
}

// redacted is an address without its password.
func redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return address[:min(len(address), 8)] + "…"
}
