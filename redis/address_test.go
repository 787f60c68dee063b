package redis

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/internal/excerpt"
)

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		address        string
		hosts          []string
		user, password string
		db             int
		secure         bool
		cluster        bool
		master         string
	}{
		{address: "redis://localhost", hosts: []string{"localhost:6379"}},
		{address: "redis://localhost:7000", hosts: []string{"localhost:7000"}},
		{address: "redis://:7000", hosts: []string{"127.0.0.1:7000"}},
		{address: "redis://[::1]", hosts: []string{"[::1]:6379"}},
		{address: "redis://[::1]:7000/3", hosts: []string{"[::1]:7000"}, db: 3},
		{address: "redis://h/", hosts: []string{"h:6379"}},
		{address: "redis://h?db=2", hosts: []string{"h:6379"}, db: 2},
		{address: "redis://u:p@h/1", hosts: []string{"h:6379"}, user: "u", password: "p", db: 1},
		{address: "redis://:p@h", hosts: []string{"h:6379"}, password: "p"},
		{address: "redis://u:p%40%2f%3A@h", hosts: []string{"h:6379"}, user: "u", password: "p@/:"},
		{address: "rediss://u:p@h:6380", hosts: []string{"h:6380"}, user: "u", password: "p", secure: true},
		{address: "redis+sentinel://a,b:1,c/main", hosts: []string{"a:26379", "b:1", "c:26379"}, master: "main"},
		{address: "rediss+sentinel://u:p@a/main?db=4", hosts: []string{"a:26379"}, user: "u", password: "p", db: 4, secure: true, master: "main"},
		{address: "redis+cluster://a,b:1", hosts: []string{"a:6379", "b:1"}, cluster: true},
		{address: "rediss+cluster://u:p@a/0", hosts: []string{"a:6379"}, user: "u", password: "p", secure: true, cluster: true},
	} {
		o, cluster, err := parseAddress(test.address, nil)
		if err != nil {
			t.Errorf("%s: %v", test.address, err)
			continue
		}
		if !slices.Equal(o.InitAddress, test.hosts) || o.Username != test.user || o.Password != test.password ||
			o.SelectDB != test.db || (o.TLSConfig != nil) != test.secure || cluster != test.cluster || o.Sentinel.MasterSet != test.master {
			t.Errorf("%s: got %v, user %q, password %q, database %d, TLS %t, cluster %t, master %q", test.address,
				o.InitAddress, o.Username, o.Password, o.SelectDB, o.TLSConfig != nil, cluster, o.Sentinel.MasterSet)
		}
	}
}

func TestSentinelPassword(t *testing.T) {
	config := &tls.Config{ServerName: "s", MinVersion: tls.VersionTLS13}
	o, _, err := parseAddress("rediss+sentinel://u:p@a/main?sentinel_username=v&sentinel_password=q%26", config)
	if err != nil {
		t.Fatal(err)
	}
	if o.Sentinel.Username != "v" || o.Sentinel.Password != "q&" || o.Username != "u" || o.Password != "p" {
		t.Errorf("Sentinel %q %q, server %q %q", o.Sentinel.Username, o.Sentinel.Password, o.Username, o.Password)
	}
	if o.TLSConfig != config || o.Sentinel.TLSConfig != config {
		t.Error("the TLS configuration is not used for both")
	}
}

func TestBadAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"":                             "no scheme",
		"localhost:6379":               "no scheme",
		"http://h":                     `"http" is not a scheme`,
		"redis+cluser://h":             "must be redis, redis+sentinel or redis+cluster",
		"redis://":                     "a host is missing",
		"redis+cluster://a,,b":         "a host is missing",
		"redis://a,b":                  "for several use redis+cluster",
		"redis://h:0":                  "1 to 65535",
		"redis://h:65536":              "1 to 65535",
		"redis://h:port":               "1 to 65535",
		"redis://::1":                  "[::1]:6379 for IPv6",
		"redis://h/one":                `database "one": must be a number`,
		"redis://h/1?db=2":             "given twice",
		"redis://h?db=1&db=2":          "more than once",
		"redis://h?timeout=1s":         "?timeout is not known here: must be one of db",
		"redis://h#1":                  "#1 does not belong",
		"redis://u:100%@h":             "escape special characters",
		"redis+sentinel://a,b":         "name of the master is missing",
		"redis+sentinel://a,b/":        "name of the master is missing",
		"redis+sentinel://a/m/1":       "name of the master is missing",
		"redis+sentinel://a/m?db=x":    "must be a number",
		"redis+cluster://a/1":          "a cluster has no database",
		"redis+cluster://a?db=1":       "?db is not known here",
		strings.Repeat("long", 10_000): "no scheme",
	} {
		_, _, err := parseAddress(address, nil)
		if err == nil {
			t.Errorf("%s: accepted", excerpt.Of(address))
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, want %q", excerpt.Of(address), err, want)
		}
		if len(err.Error()) > 300 {
			t.Errorf("%s: a message of %d bytes", excerpt.Of(address), len(err.Error()))
		}
	}
	if _, _, err := parseAddress("redis+cluster://h", &tls.Config{MinVersion: tls.VersionTLS12}); err == nil || !strings.Contains(err.Error(), "must be rediss+cluster") {
		t.Errorf("TLS without rediss: %v", err)
	}
}

// TestPasswordsStayOut looks for the password in messages about wrong
// addresses, which end up in logs.
func TestPasswordsStayOut(t *testing.T) {
	for _, address := range []string{
		"redis://u:secret@", "redis://u:secret%@h", "redis://u:secret@h:x", "redis://u:secret@a,b", "redis://u:secret@h/x",
		"redis://u:secret@h#x", "redis+sentinel://u:secret@h", "redis+sentinel://h/m?sentinel_password=secret&x=1",
		"redis+sentinel://h/m?sentinel_password=secret;", "redis+cluster://u:secret@h/5", "rdis://u:secret@h",
	} {
		if _, _, err := parseAddress(address, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
