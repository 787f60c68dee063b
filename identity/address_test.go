package identity

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func identifier(t testing.TB, c Config, options ...Option) *Identifier {
	t.Helper()
	i, err := Open(t.Context(), c, options...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func identify(t testing.TB, i *Identifier, header http.Header, remote string) Identity {
	t.Helper()
	var id Identity
	if err := i.Identify(t.Context(), header, remote, &id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheClientIsTheRightmostHopThatIsNotOurs(t *testing.T) {
	const proxy, stranger = "10.0.0.1:5000", "198.51.100.9:1234"
	for _, test := range []struct {
		name, header, remote string
		lines                []string
		want                 string
	}{
		{"no header", XForwardedFor, proxy, nil, "ip:10.0.0.1"},
		{"a stranger's header is ignored", XForwardedFor, stranger, []string{"203.0.113.7"}, "ip:198.51.100.9"},
		{"one hop", XForwardedFor, proxy, []string{"203.0.113.7"}, "ip:203.0.113.7"},
		{"what the client made up stands left", XForwardedFor, proxy, []string{"1.1.1.1, 203.0.113.7"}, "ip:203.0.113.7"},
		{"our own proxies are skipped", XForwardedFor, proxy, []string{"1.1.1.1, 203.0.113.7, 10.2.3.4,192.168.7.7"}, "ip:203.0.113.7"},
		{"several lines are one list", XForwardedFor, proxy, []string{"1.1.1.1", "203.0.113.7", "10.2.3.4"}, "ip:203.0.113.7"},
		{"all are ours: the first", XForwardedFor, proxy, []string{"10.9.9.9, 10.2.3.4"}, "ip:10.9.9.9"},
		{"garbage", XForwardedFor, proxy, []string{"unknown"}, "ip:10.0.0.1"},
		{"garbage before our proxy", XForwardedFor, proxy, []string{"203.0.113.7, junk, 10.2.3.4"}, "ip:10.0.0.1"},
		{"an empty element", XForwardedFor, proxy, []string{"203.0.113.7,"}, "ip:10.0.0.1"},
		{"an endless chain", XForwardedFor, proxy, []string{strings.Repeat("10.0.0.9,", 1000) + "10.0.0.9"}, "ip:10.0.0.1"},
		{"port", XForwardedFor, proxy, []string{"203.0.113.7:4711"}, "ip:203.0.113.7"},
		{"bad port", XForwardedFor, proxy, []string{"203.0.113.7:http"}, "ip:10.0.0.1"},
		{"IPv6 by /64", XForwardedFor, proxy, []string{"2001:db8:1:2:3:4:5:6"}, "ip:2001:db8:1:2::/64"},
		{"IPv6 with port", XForwardedFor, proxy, []string{"[2001:db8:1:2:ffff::1]:443"}, "ip:2001:db8:1:2::/64"},
		{"IPv6 with zone", XForwardedFor, proxy, []string{"fe80::1%eth0"}, "ip:fe80::/64"},
		{"mapped IPv4 is IPv4", XForwardedFor, proxy, []string{"::ffff:203.0.113.7"}, "ip:203.0.113.7"},
		{"a mapped proxy is ours", XForwardedFor, "[::ffff:10.0.0.1]:99", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		{"another header is not read", XForwardedFor, proxy, nil, "ip:10.0.0.1"},
		{"Unix socket", XForwardedFor, "@", []string{"203.0.113.7"}, "ip:unknown"},
		{"no remote address", XForwardedFor, "", []string{"203.0.113.7"}, "ip:unknown"},

		{"Forwarded", Forwarded, proxy, []string{`for=203.0.113.7;proto=https;by=10.0.0.1`}, "ip:203.0.113.7"},
		{"Forwarded, quoted IPv6", Forwarded, proxy, []string{`For="[2001:db8:cafe::17]:4711"`}, "ip:2001:db8:cafe::/64"},
		{"Forwarded, a chain", Forwarded, proxy, []string{`for=1.1.1.1, for=203.0.113.7`, `proto=http;for=10.2.3.4`}, "ip:203.0.113.7"},
		{"Forwarded, an open quote from the client", Forwarded, proxy, []string{`for="1.1.1.1, for=203.0.113.7`}, "ip:203.0.113.7"},
		{"Forwarded, quotes that pair across", Forwarded, proxy, []string{`for="x, for="203.0.113.7"`}, "ip:203.0.113.7"},
		{"Forwarded, an escape from the client", Forwarded, proxy, []string{`for="\", for="203.0.113.7"`}, "ip:203.0.113.7"},
		{"Forwarded, a comma in quotes", Forwarded, proxy, []string{`for=203.0.113.7;host="a,b"`}, "ip:203.0.113.7"},
		{"Forwarded, a semicolon in quotes", Forwarded, proxy, []string{`host="for=1.1.1.1;x";for=203.0.113.7`}, "ip:203.0.113.7"},
		{"Forwarded, hidden", Forwarded, proxy, []string{`for=_hidden`}, "ip:10.0.0.1"},
		{"Forwarded, twice", Forwarded, proxy, []string{`for=1.1.1.1;for=203.0.113.7`}, "ip:10.0.0.1"},
		{"Forwarded, none", Forwarded, proxy, []string{`proto=http`}, "ip:10.0.0.1"},

		{"X-Real-IP", "X-Real-IP", proxy, []string{"203.0.113.7"}, "ip:203.0.113.7"},
		{"X-Real-IP twice", "X-Real-IP", proxy, []string{"203.0.113.7", "1.1.1.1"}, "ip:10.0.0.1"},
		{"X-Real-IP of a stranger", "X-Real-IP", stranger, []string{"203.0.113.7"}, "ip:198.51.100.9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := identifier(t, Config{Address: Address{
				TrustedProxies: []string{"10.0.0.0/8", "192.168.7.7"},
				Header:         test.header,
			}})
			header := http.Header{}
			for _, name := range []string{XForwardedFor, Forwarded, XRealIP} {
				header.Set(name, "9.9.9.9") // a header that nobody named must not matter
			}
			header.Del(test.header)
			for _, l := range test.lines {
				header.Add(test.header, l)
			}
			id := identify(t, i, header, test.remote)
			if id.Address != test.want || id.Entity != test.want || id.Kind != ByAddress {
				t.Errorf("got %+v, want %s", id, test.want)
			}
		})
	}
}

func TestAddressesAreGroupedAsConfigured(t *testing.T) {
	i := identifier(t, Config{Address: Address{IPv4Prefix: 24, IPv6Prefix: 48}})
	for remote, want := range map[string]string{
		"203.0.113.7:80":             "ip:203.0.113.0/24",
		"[2001:db8:1:2:3:4:5:6]:443": "ip:2001:db8:1::/48",
	} {
		if id := identify(t, i, nil, remote); id.Address != want {
			t.Errorf("%s: got %s, want %s", remote, id.Address, want)
		}
	}
}

func TestTheHostsThatAreRememberedAreBounded(t *testing.T) {
	i := identifier(t, Config{})
	hosts := &i.addresses.hosts
	for a := range 3 * hostsPerShard * len(hosts.shards) {
		addr := netip.AddrFrom4([4]byte{10, byte(a >> 16), byte(a >> 8), byte(a)}).String()
		if id := identify(t, i, nil, addr+":80"); id.Address != "ip:"+addr {
			t.Fatalf("%s is %s", addr, id.Address)
		}
	}
	for n := range hosts.shards {
		if s := &hosts.shards[n]; len(s.now) > hostsPerShard || len(s.old) > hostsPerShard {
			t.Errorf("shard %d remembers %d and %d hosts", n, len(s.now), len(s.old))
		}
	}
	allocs := testing.AllocsPerRun(100, func() {
		var id Identity
		if err := i.Identify(t.Context(), nil, "203.0.113.7:80", &id); err != nil {
			t.Error(err)
		}
	})
	if allocs > 0 {
		t.Errorf("a caller who comes again costs %v allocations", allocs)
	}
}
