package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/schedule"
)

// authority issues certificates that nobody else knows.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.cert, a.key = a.issue(t, "ca", nil)
	a.pool.AddCert(a.cert)
	return a
}

// issue writes a certificate and its key to NAME.pem and NAME.key.
func (a *authority) issue(t *testing.T, name string, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: by == nil,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, a.dir, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, a.dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// front is a server that speaks TLS, wants a certificate from its clients, and
// passes everything on to a server that does not. PostgreSQL's clients ask for
// TLS first.
func (a *authority) front(t *testing.T, to string, postgres bool) string {
	t.Helper()
	a.issue(t, "server", a)
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, "server.pem"), filepath.Join(a.dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool, MinVersion: tls.VersionTLS12}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // nothing is lost
	go func() {
		for {
			plain, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer plain.Close() //nolint:errcheck // nothing is lost
				if postgres {
					if _, err := io.ReadFull(plain, make([]byte, 8)); err != nil {
						return
					}
					plain.Write([]byte("S")) //nolint:errcheck // the handshake fails then
				}
				c := tls.Server(plain, config)
				if c.Handshake() != nil {
					return
				}
				inner, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer inner.Close()  //nolint:errcheck // nothing is lost
				go io.Copy(inner, c) //nolint:errcheck // ends when the other does
				io.Copy(c, inner)    //nolint:errcheck // the same
			}()
		}
	}()
	return l.Addr().String()
}

// opened opens a stack with the flags of serve, and decides a take with it.
func opened(t *testing.T, flags ...string) (*stack, error) {
	t.Helper()
	var p places
	cmd := serveCommand()
	own := cmd.Flags()
	if err := own.Parse(flags); err != nil {
		return nil, err
	}
	for _, d := range []*database{&p.store, &p.catalog} {
		d.flag = map[*database]string{&p.store: "store", &p.catalog: "catalog"}[d]
		get := func(name string) string { return own.Lookup(d.flag + name).Value.String() }
		d.address, d.ca, d.cert, d.certKey = get(""), get("-ca"), get("-cert"), get("-cert-key")
		n, err := own.GetInt(d.flag + "-conns")
		if err != nil {
			return nil, err
		}
		d.conns = n
	}
	p.migrate = own.Lookup("migrate").Value.String()
	s, err := open(t.Context(), p, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	d, err := s.exact.Take(t.Context(), sluice.Demand{Key: sluice.Key{Entity: "alice", Limit: "rpm"}, Limit: sluice.Per(10, time.Minute)})
	if err == nil && (!d.Allowed || d.Source != sluice.FromStore) {
		t.Errorf("%+v", d)
	}
	return s, err
}

// TestCertificatesForTheStores: Redis and PostgreSQL behind a private authority
// are reached with a certificate of one's own, and not without.
func TestCertificatesForTheStores(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, "node", a)
	file := func(name string) string { return filepath.Join(a.dir, name) }
	redisAt := "rediss://" + a.front(t, redistest.Start(t).Addr(), false)
	plain := postgrestest.Database(t)
	u, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = a.front(t, u.Host, true)
	postgresAt := u.String()
	for _, at := range []string{redisAt, postgresAt} {
		db := filepath.Join(t.TempDir(), "sluice.db")
		if _, err := opened(t, "--store", at, "--catalog", db, "--store-ca", file("ca.pem"), "--store-cert", file("node.pem"), "--store-cert-key", file("node.key")); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		if _, err := opened(t, "--store", at, "--catalog", db, "--store-ca", file("ca.pem")); err == nil {
			t.Errorf("%s: connected without a certificate", at)
		}
		other := newAuthority(t)
		if _, err := opened(t, "--store", at, "--catalog", db, "--store-ca", filepath.Join(other.dir, "ca.pem"), "--store-cert", file("node.pem"), "--store-cert-key", file("node.key")); err == nil {
			t.Errorf("%s: trusted a server of another authority", at)
		}
	}
	s, err := opened(t, "--catalog", postgresAt, "--catalog-ca", file("ca.pem"), "--catalog-cert", file("node.pem"), "--catalog-cert-key", file("node.key"))
	if err != nil {
		t.Fatalf("as catalog: %v", err)
	}
	postgrestest.Eventually(t, "the catalog listens with the certificate", func() bool { return s.catalog.Stats().Watching })
	for want, flags := range map[string][]string{
		"belong together":               {"--store", redisAt, "--store-cert", file("node.pem")},
		"no certificate in PEM":         {"--store", redisAt, "--store-ca", file("node.key")},
		"must be rediss":                {"--store", strings.Replace(redisAt, "rediss", "redis", 1), "--store-ca", file("ca.pem")},
		"are for PostgreSQL":            {"--catalog-ca", file("ca.pem")},
		"must be 1, 2, 4":               {"--store", redisAt, "--store-conns", "3"},
		"MaxConns: 1: must be 2 to 100": {"--store", plain, "--store-conns", "1"},
	} {
		if _, err := opened(t, append([]string{"--catalog", filepath.Join(t.TempDir(), "sluice.db")}, flags...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", flags, err, want)
		}
	}
}

// TestSizesOfPools: a flag, or else the address, says how many connections
// there are, and metrics show them.
func TestSizesOfPools(t *testing.T) {
	at := postgrestest.Database(t)
	with := func(s string) string {
		if strings.Contains(at, "?") {
			return at + "&" + s
		}
		return at + "?" + s
	}
	for _, test := range []struct {
		flags        []string
		limits, rest int
	}{
		{[]string{"--store", at, "--catalog", at}, 10, 10},
		{[]string{"--store", with("pool_max_conns=7"), "--catalog", with("pool_max_conns=3")}, 7, 3},
		{[]string{"--store", with("pool_max_conns=7"), "--catalog", at, "--store-conns", "5", "--catalog-conns", "4"}, 5, 4},
	} {
		s, err := opened(t, test.flags...)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.pools["limits"].Pool(); got.Max != test.limits || got.Open < 1 {
			t.Errorf("%v: limits: %+v, want %d", test.flags, got, test.limits)
		}
		if got := s.pools["slots"].Pool(); got.Max != test.rest {
			t.Errorf("%v: slots: %+v, want %d", test.flags, got, test.rest)
		}
		families, err := s.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "sluice_pool_") && len(f.GetMetric()) == 4 {
				found++
			}
		}
		if found != 5 {
			t.Errorf("%d metrics of pools, want 5 with four jobs each", found)
		}
	}
	s, err := opened(t, "--store", redistest.Start(t).URL(), "--catalog", filepath.Join(t.TempDir(), "sluice.db"), "--store-conns", "4")
	if err != nil {
		t.Fatal(err)
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "sluice_redis_connections" && n < 1 {
			t.Errorf("%v connections to Redis", n)
		}
	}
}

// TestPoolParametersDoNotKeepFromListening: the parameters of a pool are not
// sent by the connections on which notifications are heard.
func TestPoolParametersDoNotKeepFromListening(t *testing.T) {
	at := postgrestest.Database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for name, value := range map[string]string{
		"pool_max_conns": "4", "pool_min_conns": "1", "pool_min_idle_conns": "1", "pool_max_conn_lifetime": "1h",
		"pool_max_conn_idle_time": "30m", "pool_health_check_period": "1m", "pool_max_conn_lifetime_jitter": "1s",
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	s, err := opened(t, "--store", u.String(), "--catalog", u.String())
	if err != nil {
		t.Fatal(err)
	}
	postgrestest.Eventually(t, "the catalog listens", func() bool { return s.catalog.Stats().Watching })
	scheduler, err := schedule.New(schedule.Config{Store: s.slots})
	if err != nil {
		t.Fatal(err)
	}
	defer scheduler.Close()
	waiting, cancel := context.WithCancel(t.Context())
	demand := sluice.Demand{Key: sluice.Key{Entity: "bob", Limit: "rpm"}, Limit: sluice.Per(1, time.Hour)}
	ended := make(chan error, 2)
	for range 2 { // the second has to wait, and the store listens
		go func() {
			_, err := s.exact.Wait(waiting, sluice.Take{Demands: []sluice.Demand{demand}})
			ended <- err
		}()
	}
	look := postgrestest.Connect(t, at)
	for _, channel := range []string{"sluice_room", "sluice_slots"} {
		postgrestest.Eventually(t, channel+" is listened to", func() (listens bool) {
			const sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN ' || $1)"
			if err := look.QueryRow(t.Context(), sql, channel).Scan(&listens); err != nil {
				t.Fatal(err)
			}
			return listens
		})
	}
	cancel()
	<-ended
	<-ended
}

// TestSchemasChangedByOthers: with --migrate=off a node needs no right to
// change a schema, and refuses one that is not the one it needs.
func TestSchemasChangedByOthers(t *testing.T) {
	at := postgrestest.Database(t)
	file := filepath.Join(t.TempDir(), "sluice.db")
	for _, flags := range [][]string{{"--store", at, "--catalog", file}, {"--catalog", at}, {"--catalog", file}} {
		if _, err := opened(t, append(flags, "--migrate", "off")...); err == nil || !strings.Contains(err.Error(), "sluice migrate") {
			t.Errorf("%v: %v", flags, err)
		}
	}
	tell := func(code int, want string, args ...string) {
		t.Helper()
		var out, errs strings.Builder
		if got := run(context.Background(), args, strings.NewReader(""), &out, &errs); got != code || !strings.Contains(out.String(), want) {
			t.Errorf("%v: exit %d, %s%s, want %d and %q", args, got, &out, &errs, code, want)
		}
	}
	tell(1, "has version 0 and needs", "migrate", "--check", "--store", at, "--catalog", file)
	tell(0, "migrated from version 0 to", "migrate", "--store", at, "--catalog", file)
	tell(0, "up to date", "migrate", "--check", "--store", at, "--catalog", file)
	replays := filepath.Join(t.TempDir(), "replays.db")
	tell(1, replays+": has version 0", "migrate", "--check", "--catalog", file, "--replays", replays)
	tell(0, replays+": migrated", "migrate", "--catalog", file, "--replays", replays)
	tell(0, replays+": up to date", "migrate", "--check", "--catalog", file, "--replays", replays)
	tell(0, "up to date", "migrate", "--check", "--catalog", file, "--replays", "redis://localhost") // has no schema
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("sluice_node")
	postgrestest.Exec(t, at, "DROP ROLE IF EXISTS sluice_node")
	postgrestest.Exec(t, at, "CREATE ROLE sluice_node LOGIN")
	if _, err := opened(t, "--catalog", u.String(), "--migrate", "off"); err == nil || !strings.Contains(err.Error(), "GRANT USAGE ON SCHEMA sluice TO") || strings.Contains(err.Error(), "DATABASE") {
		t.Errorf("without grants: %v", err)
	}
	// A role that can change nothing but rows.
	for _, sql := range []string{
		"GRANT USAGE ON SCHEMA sluice TO sluice_node",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sluice TO sluice_node",
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA sluice TO sluice_node",
	} {
		postgrestest.Exec(t, at, sql)
	}
	t.Cleanup(func() { postgrestest.Exec(t, at, "DROP OWNED BY sluice_node; DROP ROLE sluice_node") })
	if _, err := opened(t, "--store", u.String(), "--catalog", u.String(), "--migrate", "off"); err != nil {
		t.Error(err)
	}
	if _, err := opened(t, "--catalog", file, "--migrate", "off"); err != nil {
		t.Error(err)
	}
}
