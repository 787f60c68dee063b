package identity

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whatever a client sends, its trusted proxy appends where it came from, and
// that is what counts.
func FuzzXForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "1.1.1.1, 10.0.0.2", "unknown", "[::1]:80", ",", "fe80::1%eth0", "10.0.0.1:99999"} {
		f.Add(s, s)
	}
	i := identifier(f, Config{Address: Address{TrustedProxies: []string{"10.0.0.0/8"}}})
	f.Fuzz(func(t *testing.T, first, second string) {
		spoofed := http.Header{XForwardedFor: {first, second}}
		if id := identify(t, i, spoofed, "198.51.100.9:1"); id.Address != "ip:198.51.100.9" {
			t.Errorf("without a proxy: %s", id.Address)
		}
		for _, lines := range [][]string{{first, second + ", 203.0.113.7"}, {first, second, "203.0.113.7", "10.1.1.1"}} {
			if id := identify(t, i, http.Header{XForwardedFor: lines}, "10.0.0.1:1"); id.Address != "ip:203.0.113.7" {
				t.Errorf("%q: %s", lines, id.Address)
			}
		}
		// A differential check against a slow and obvious reading.
		id := identify(t, i, spoofed, "10.0.0.1:1")
		if want := slowClient([]string{first, second}); id.Client != want {
			t.Errorf("%q: got %s, want %s", spoofed, id.Client, want)
		}
		if !strings.HasPrefix(id.Address, "ip:") || id.Entity != id.Address {
			t.Errorf("nobody: %+v", id)
		}
	})
}

var port = regexp.MustCompile(`^:[0-9]{1,5}$`)

func slowClient(lines []string) netip.Addr {
	socket := netip.MustParseAddr("10.0.0.1")
	ours := netip.MustParsePrefix("10.0.0.0/8")
	hops := strings.Split(strings.Join(lines, ","), ",")
	slices.Reverse(hops)
	client := socket
	for n, hop := range hops {
		hop = strings.Trim(hop, " \t")
		var addr netip.Addr
		if ap, err := netip.ParseAddrPort(hop); err == nil {
			addr = ap.Addr()
		} else if a, err := netip.ParseAddr(hop); err == nil {
			addr = a
		} else if inner, ok := strings.CutPrefix(hop, "["); ok && strings.HasSuffix(inner, "]") {
			addr, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
			if err != nil || !addr.Is6() {
				return socket
			}
		} else if end := strings.LastIndexByte(hop, ':'); end > 0 && port.MatchString(hop[end:]) {
			// Ports beyond 65535 are no worse than others.
			if inner, ok := strings.CutPrefix(hop[:end], "["); ok && strings.HasSuffix(inner, "]") {
				if addr, _ = netip.ParseAddr(strings.TrimSuffix(inner, "]")); !addr.Is6() {
					return socket
				}
			} else if addr, _ = netip.ParseAddr(hop[:end]); !addr.Is4() {
				return socket
			}
		}
		if !addr.IsValid() || n >= maxHops || len(hop) > 100 {
			return socket
		}
		addr = addr.Unmap().WithZone("")
		if !ours.Contains(addr) {
			return addr
		}
		client = addr
	}
	return client
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", `for=1.1.1.1`, `for="`, `for="\"`, `for="[::1]:80";by=x`, `for=_x;for=_y`, `,`, `"`, `host="a,b`} {
		f.Add(s)
	}
	i := identifier(f, Config{Address: Address{TrustedProxies: []string{"10.0.0.0/8"}, Header: Forwarded}})
	f.Fuzz(func(t *testing.T, sent string) {
		for _, appended := range []string{`for=203.0.113.7`, `for="203.0.113.7:80";proto=http`, `proto=https;host="a,b";for=203.0.113.7, for=10.3.3.3`} {
			header := http.Header{Forwarded: {sent + ", " + appended}}
			if id := identify(t, i, header, "10.0.0.1:1"); id.Address != "ip:203.0.113.7" {
				t.Errorf("%q: %s", header, id.Address)
			}
		}
		if id := identify(t, i, http.Header{Forwarded: {sent}}, "198.51.100.9:1"); id.Address != "ip:198.51.100.9" {
			t.Errorf("%q: %s", sent, id.Address)
		}
	})
}
