package identity

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// maxHops is how many proxies are followed back. Longer chains are not ones
// that trusted proxies wrote.
const maxHops = 32

// addresses finds the address of callers and the name of the group each
// address belongs to.
type addresses struct {
	trusted    []netip.Prefix
	header     string
	bits4      int
	bits6      int
	namesSeed  maphash.Seed
	namesCache [16]names
}

func (a *addresses) init(c *Address) {
	for _, s := range c.TrustedProxies {
		p, _ := parsePrefix(s) //nolint:errcheck // Check has parsed it before
		a.trusted = append(a.trusted, p)
	}
	a.header = http.CanonicalHeaderKey(c.Header)
	a.bits4, a.bits6 = c.IPv4Prefix, c.IPv6Prefix
	a.namesSeed = maphash.MakeSeed()
}

func (a *addresses) identify(header http.Header, remote string, id *Identity) {
	id.Client = a.client(header, remote)
	id.Address = a.name(id.Client)
	id.Entity = id.Address
}

// client is the address of whoever called the first proxy that is not ours:
// that of the connection if it is not a trusted proxy's, else the rightmost
// one in the header that is not, else, if all are ours, the leftmost. If the
// header is missing or garbage, it is the connection's.
func (a *addresses) client(header http.Header, remote string) netip.Addr {
	socket, ok := parseHop(remote)
	if !ok || !a.trusts(socket) {
		return socket
	}
	lines := header[a.header]
	if a.header == XRealIP {
		if len(lines) == 1 {
			if addr, ok := parseHop(strings.Trim(lines[0], " \t")); ok {
				return addr
			}
		}
		return socket
	}
	client, hops := socket, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var hop string
			if a.header == Forwarded {
				rest, hop, more = lastForwarded(rest)
			} else {
				rest, hop, more = lastField(rest)
			}
			addr, ok := parseHop(hop)
			if hops++; !ok || hops > maxHops {
				return socket
			}
			if !a.trusts(addr) {
				return addr
			}
			client = addr
		}
	}
	return client
}

func (a *addresses) trusts(addr netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// lastField cuts the last of a list separated by commas off.
func lastField(s string) (rest, last string, more bool) {
	i := strings.LastIndexByte(s, ',')
	if i < 0 {
		return "", strings.Trim(s, " \t"), false
	}
	return s[:i], strings.Trim(s[i+1:], " \t"), true
}

// parseHop reads an address as proxies and sockets write it: with or without
// a port, in brackets, with a zone, or IPv4 mapped into IPv6.
func parseHop(s string) (netip.Addr, bool) {
	if len(s) > 100 {
		return netip.Addr{}, false
	}
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !portOrNothing(s[end+1:]) {
			return netip.Addr{}, false
		}
		addr, err := netip.ParseAddr(s[1:end])
		return addr.Unmap().WithZone(""), err == nil && addr.Is6()
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		if !portOrNothing(s[i:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}

func portOrNothing(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) < 2 || len(s) > 6 {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// nobody is the group of callers whose connection has no address. They share
// their limits, which is not the same as having none.
const nobody = "ip:unknown"

// name is the entity of the group that addr belongs to.
func (a *addresses) name(addr netip.Addr) string {
	if !addr.IsValid() {
		return nobody
	}
	bits := a.bits6
	if addr.Is4() {
		bits = a.bits4
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return nobody
	}
	shard := &a.namesCache[maphash.Comparable(a.namesSeed, p.Addr())%uint64(len(a.namesCache))]
	return shard.of(p)
}

// names remembers how groups are called, so that a caller who comes again
// costs no memory. It forgets the half that was not asked for lately.
type names struct {
	mu       sync.Mutex
	now, old map[netip.Prefix]string
}

const namesPerShard = 4096

func (n *names) of(p netip.Prefix) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s, ok := n.now[p]; ok {
		return s
	}
	s, ok := n.old[p]
	if !ok {
		s = "ip:" + p.Addr().String()
		if !p.IsSingleIP() {
			s = "ip:" + p.String()
		}
	}
	if n.now == nil || len(n.now) >= namesPerShard {
		n.now, n.old = map[netip.Prefix]string{}, n.now
	}
	n.now[p] = s
	return s
}

// Client is the caller's address, and whether the connection is one of a
// trusted proxy.
func (i *Identifier) Client(header http.Header, remote string) (client netip.Addr, trusted bool) {
	socket, ok := parseHop(remote)
	return i.addresses.client(header, remote), ok && i.addresses.trusts(socket)
}

// ClientHeader is the header in which trusted proxies tell the address.
func (i *Identifier) ClientHeader() string { return i.addresses.header }
