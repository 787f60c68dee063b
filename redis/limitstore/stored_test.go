package limitstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestAnotherVersion finds values of a version that this one does not know.
// They are refused, not guessed at, and stay as they are until they are reset;
// others go on.
func TestAnotherVersion(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Config{Address: server.URL()})
	l, ctx := sluice.New(s), context.Background()
	future := recordOf("future")
	server.Must("SET", future, "\x03?")
	server.Must("SET", "sluice:1:id:{future}", "\x02?")
	d := demand("future", "10/s")
	take := func(t sluice.Take) error {
		var got sluice.Decision
		return l.Decide(ctx, &t, &got)
	}
	grants := make([]sluice.Grant, 1)
	for verb, err := range map[string]error{
		"take":   take(sluice.Take{Demands: []sluice.Demand{d}}),
		"three":  take(sluice.Take{Demands: []sluice.Demand{demand("present", "10/s"), d}}),
		"peek":   take(sluice.Take{Demands: []sluice.Demand{d}, Peek: true}),
		"id":     take(sluice.Take{Demands: []sluice.Demand{demand("present", "10/s")}, ID: "future"}),
		"settle": l.Lease("future").Release(ctx),
		"hold":   s.Hold(ctx, []sluice.HoldRequest{{Key: d.Key, Limit: d.Limit, ID: sluice.HoldID{Node: 1}, Max: sluice.Thousandths(1), TTL: time.Second}}, grants),
		"return": s.Return(ctx, []sluice.HoldReturn{{Key: d.Key, Limit: d.Limit, ID: sluice.HoldID{Node: 1}}}),
	} {
		if !errors.Is(err, limitstore.ErrVersion) || !errors.Is(err, sluice.ErrRecord) || errors.Is(err, sluice.ErrUnknown) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	var wg sync.WaitGroup
	for i := range 100 { // some of them in one call
		wg.Go(func() {
			entity := []string{"future", "present"}[i%2]
			if _, err := l.Take(ctx, demand(entity, "1000/h")); errors.Is(err, limitstore.ErrVersion) != (entity == "future") {
				t.Errorf("%s: %v", entity, err)
			}
		})
	}
	wg.Wait()
	if got := server.Must("GET", future); got != "\x03?" {
		t.Errorf("it was changed to %q", got)
	}
	if left := sluice.Thousandths(remaining(t, server.URL(), demand("present", "1000/h"))).Whole(); left != 950 {
		t.Errorf("%d left beside it, want 950", left)
	}
}

// TestResetMendsARecord of another version, cut off, or of another type.
func TestResetMendsARecord(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Config{Address: server.URL()})
	l, ctx := sluice.New(s), context.Background()
	good, bad := demand("good", "10/h"), demand("bad", "10/h")
	for name, spoil := range map[string]func(){
		"version": func() { server.Must("SET", recordOf("bad"), "\x03?") },
		"cut off": func() { server.Must("SET", recordOf("bad"), "\x01??") },
		"type":    func() { server.Must("DEL", recordOf("bad")); server.Must("LPUSH", recordOf("bad"), "x") },
	} {
		spoil()
		if _, err := l.Take(ctx, bad); !errors.Is(err, sluice.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.Reset(ctx, good.Key, bad.Key); err != nil {
			t.Errorf("%s: resetting it: %v", name, err)
		}
		for _, d := range []sluice.Demand{good, bad} {
			if got, err := l.Take(ctx, d); err != nil || got.Results[0].Remaining.Whole() != 9 {
				t.Errorf("%s: %s after a reset: %+v, %v", name, d.Key, got, err)
			}
		}
	}
}

// TestKeysExpire looks at how long the server keeps keys: until the bucket is
// full, and longer by a quarter and a second at most.
func TestKeysExpire(t *testing.T) {
	server := redistest.Start(t)
	l, ctx := sluice.New(open(t, redis.Config{Address: server.URL()})), context.Background()
	lives := func(entity string) time.Duration {
		ms, err := strconv.Atoi(server.Must("PTTL", recordOf(entity)))
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(ms) * time.Millisecond
	}
	const slack = 10 * time.Second // between the take and the look
	for entity, test := range map[string]struct {
		limit string
		want  time.Duration
	}{
		"tokens":  {"100/h", 36 * time.Second},
		"huge":    {"1000000/30d burst 100000000", 2592 * time.Millisecond},
		"sliding": {"100/h sliding", time.Hour + time.Hour/32},
		"slowest": {"1/1825d", 1825 * 24 * time.Hour},
	} {
		if _, err := l.Take(ctx, demand(entity, test.limit)); err != nil {
			t.Fatal(err)
		}
		got := lives(entity)
		if entity == "sliding" && got > 0 { // it depends on where in a part it was taken
			test.want = min(test.want, got)
		}
		if got > test.want+test.want/4+time.Second+5*time.Millisecond || got < test.want-slack && entity != "huge" {
			t.Errorf("%s: lives for %s, want %s", entity, got, test.want)
		}
	}
	// All of it given back is as good as nothing.
	back := demand("tokens", "100/h")
	back.Cost = sluice.Thousandths(-sluice.Token)
	if _, err := l.Adjust(ctx, back); err != nil {
		t.Fatal(err)
	}
	if n := server.Must("EXISTS", recordOf("tokens")); n != "0" {
		t.Error("a full bucket is kept")
	}
	// So is what is reset, though another limit of the record lives on in it,
	// full by now.
	slow, fast := demand("reset", "1/h"), demand("reset", "1000000/s")
	fast.Key.Limit = "fast"
	if _, err := l.Take(ctx, slow, fast); err != nil {
		t.Fatal(err)
	}
	if err := l.Reset(ctx, slow.Key); err != nil {
		t.Fatal(err)
	}
	if n := server.Must("EXISTS", recordOf("reset")); n != "0" {
		t.Error("a record of full buckets is kept after a reset")
	}
	// Refusals change nothing.
	if _, err := l.Take(ctx, demand("empty", "1/h")); err != nil {
		t.Fatal(err)
	}
	before := server.Must("DUMP", recordOf("empty"))
	for range 3 {
		if d, err := l.Take(ctx, demand("empty", "1/h")); err != nil || d.Allowed {
			t.Fatal(d.Allowed, err)
		}
	}
	if server.Must("DUMP", recordOf("empty")) != before {
		t.Error("a refusal has written")
	}
}

// TestKeysLive takes again and again, mostly without setting how long the key
// lives. It must live until the bucket is full all the same.
func TestKeysLive(t *testing.T) {
	for _, separate := range []bool{true, false} {
		server := redistest.Start(t)
		l, ctx := sluice.New(open(t, redis.Config{Address: server.URL(), Separate: separate})), context.Background()
		for _, demands := range [][]sluice.Demand{
			{demand("one", "1000/h")},
			{demand("two", "1000/h"), demand("two", "2000/h burst 3000")},
			{demand("a", "1000/h"), demand("b", "2000/h burst 3000")},
			{demand("window", "1000/h fixed")},
		} {
			for i := range demands {
				demands[i].Key.Limit = strconv.Itoa(i)
			}
			for range 200 {
				var d sluice.Decision
				if err := l.Decide(ctx, &sluice.Take{Demands: demands}, &d); err != nil || !d.Allowed {
					t.Fatal(d.Allowed, err)
				}
				for i := range demands {
					entity := demands[i].Key.Entity
					ms, err := strconv.ParseInt(server.Must("PTTL", recordOf(entity)), 10, 64)
					if lives := time.UnixMilli(time.Now().UnixMilli() + ms + 1); err != nil || lives.Before(d.Time.Add(d.Results[i].ResetAfter)) {
						t.Fatalf("%s lives until %s, but is full at %s, %v", entity, lives, d.Time.Add(d.Results[i].ResetAfter), err)
					}
				}
			}
		}
		if stats := server.Must("INFO", "commandstats"); statistic(stats, "setrange") < 4*statistic(stats, "set") {
			t.Error("most takes should leave how long a key lives alone:", stats)
		}
	}
}

// statistic is how often a command was called.
func statistic(stats, command string) (n int) {
	_, after, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
	number, _, _ := strings.Cut(after, ",")
	n, _ = strconv.Atoi(number)
	return n
}

// TestUserAndTLS gets in as a user who may do no more than the documentation
// says, over TLS.
func TestUserAndTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	server := redistest.Start(t, "--tls-port", "0")
	tlsPort := freePort(t)
	server.Must("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", cert, "tls-auth-clients", "no", "tls-port", tlsPort)
	server.Must(strings.Fields("ACL SETUSER sluice on >se:cret/ ~sluice:1:* &sluice:1:* +@connection +eval +evalsha " +
		"+script|load +get +mget +set +setrange +del +time +publish +subscribe +scan +info")...)
	address := "rediss://sluice:se%3Acret%2F@127.0.0.1:" + tlsPort
	l := sluice.New(open(t, redis.Config{Address: address, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}))
	ctx := context.Background()
	for range 9 { // some write a whole value, some into the one there is
		if d, err := l.Take(ctx, demand("a", "100/h")); err != nil || !d.Allowed {
			t.Fatal(d.Allowed, err)
		}
	}
	lease, _, err := l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{demand("a", "10/h")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if page, err := l.List(ctx, sluice.Query{}); err != nil || len(page.Buckets) != 1 {
		t.Errorf("listed %d, %v", len(page.Buckets), err)
	}
	for wrong, config := range map[string]redis.Config{
		"no authority": {Address: address},
		"password":     {Address: "rediss://sluice:wrong@127.0.0.1:" + tlsPort, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		"no TLS":       {Address: "redis://sluice:se%3Acret%2F@127.0.0.1:" + tlsPort},
	} {
		config.Log = quiet
		s, err := limitstore.Open(ctx, config)
		if err == nil {
			s.Close()
			t.Errorf("%s: let in", wrong)
		} else if strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: the password is in the message: %v", wrong, err)
		}
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// certificate is one for 127.0.0.1 that vouches for itself.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key = write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return cert, key, pool
}
