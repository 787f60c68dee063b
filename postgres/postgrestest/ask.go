package postgrestest

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
)

// Connect returns a connection beside those of what is tested, which ends with
// the test.
func Connect(tb testing.TB, address string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.Background()) }) //nolint:errcheck // nothing depends on it
	return conn
}

// Exec runs SQL.
func Exec(tb testing.TB, address, sql string) {
	tb.Helper()
	if _, err := Connect(tb, address).Exec(context.Background(), sql); err != nil {
		tb.Fatal(err)
	}
}

// Number returns the one number that a query finds.
func Number(tb testing.TB, address, sql string) int64 {
	tb.Helper()
	var n int64
	if err := Connect(tb, address).QueryRow(context.Background(), sql).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// Proxy starts a proxy in front of a database, and returns the address of the
// database through it.
func Proxy(tb testing.TB, address string) (*faultproxy.Proxy, string) {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	p := faultproxy.Start(tb, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}

// Eventually waits until something is so that other processes do.
func Eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			tb.Fatalf("still not so: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// WantError fails the test unless err is want, which is [sluice.ErrUnknown] or
// [sluice.ErrUnavailable], and not the other.
func WantError(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("got %v, want %v", err, want)
	}
	other := map[error]error{sluice.ErrUnknown: sluice.ErrUnavailable, sluice.ErrUnavailable: sluice.ErrUnknown}[want]
	if errors.Is(err, other) {
		tb.Fatalf("%v is also %v", err, other)
	}
}

var buffers = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)

// Pages returns how many pages of tables and indexes a plan has read.
func Pages(plan string) (n int) {
	if m := buffers.FindStringSubmatch(plan); m != nil { // the first line counts those below it
		for _, part := range m[1:] {
			k, _ := strconv.Atoi(part) // 0 for what is not there
			n += k
		}
	}
	return n
}
