package identity

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
)

// maxHops is how many proxies are followed back. Longer chains are not ones
// that trusted proxies wrote.
const maxHops = 32

// addresses finds the address of callers and the name of the group each
// address belongs to.
type addresses struct {
	trusted []netip.Prefix
	header  string
	bits4   int
	bits6   int
	hosts   hosts
}

func (a *addresses) init(c *Address) {
	for _, s := range c.TrustedProxies {
		p, _ := parsePrefix(s) //nolint:errcheck // Check has parsed it before
		a.trusted = append(a.trusted, p)
	}
	a.header = http.CanonicalHeaderKey(c.Header)
	a.bits4, a.bits6 = c.IPv4Prefix, c.IPv6Prefix
	a.hosts.seed = maphash.MakeSeed()
}

func (a *addresses) identify(header http.Header, remote string, id *Identity) {
	h := a.hop(remote)
	if h == nil || h.trusted {
		h = a.client(header, h)
	}
	id.Client, id.Address, id.Entity = h.addr, h.name, h.name
}

// client is the address of whoever called the first proxy that is not ours:
// that of the connection if it is not a trusted proxy's, else the rightmost
// one in the header that is not, else, if all are ours, the leftmost. If the
// header is missing or garbage, it is the connection's.
func (a *addresses) client(header http.Header, socket *host) *host {
	if socket == nil {
		return nobody
	}
	if !socket.trusted {
		return socket
	}
	lines := header[a.header]
	if a.header == XRealIP {
		if len(lines) == 1 {
			if h := a.hop(strings.Trim(lines[0], " \t")); h != nil {
				return h
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
			h := a.hop(hop)
			if hops++; h == nil || hops > maxHops {
				return socket
			}
			if !h.trusted {
				return h
			}
			client = h
		}
	}
	return client
}

// lastField cuts the last of a list separated by commas off.
func lastField(s string) (rest, last string, more bool) {
	i := strings.LastIndexByte(s, ',')
	if i < 0 {
		return "", strings.Trim(s, " \t"), false
	}
	return s[:i], strings.Trim(s[i+1:], " \t"), true
}

// maxHost is longer than any address with its port.
const maxHost = 100

// hop reads an address as proxies and sockets write it: with or without a
// port, in brackets, with a zone, or IPv4 mapped into IPv6. It answers nil if
// it is none.
func (a *addresses) hop(s string) *host {
	if len(s) > maxHost {
		return nil
	}
	return a.hosts.find(withoutPort(s), a.read)
}

// withoutPort cuts a port off, if there is one. Brackets stay. A colon before
// the last number is part of an IPv6 address, unless brackets are around it.
func withoutPort(s string) string {
	i := len(s)
	for i > 0 && '0' <= s[i-1] && s[i-1] <= '9' {
		i--
	}
	if digits := len(s) - i; i < 2 || s[i-1] != ':' || digits == 0 || digits > 5 {
		return s
	}
	if host := s[:i-1]; host[len(host)-1] == ']' || strings.IndexByte(host, ':') < 0 {
		return host
	}
	return s
}

// read makes a host of its text, or nil.
func (a *addresses) read(text string) *host {
	inner, brackets := strings.CutPrefix(text, "[")
	if brackets {
		var closed bool
		if inner, closed = strings.CutSuffix(inner, "]"); !closed {
			return nil
		}
	}
	addr, err := netip.ParseAddr(inner)
	if err != nil || brackets && !addr.Is6() {
		return nil
	}
	addr = addr.Unmap().WithZone("")
	bits := a.bits6
	if addr.Is4() {
		bits = a.bits4
	}
	group, err := addr.Prefix(bits)
	if err != nil {
		return nil
	}
	h := &host{text: text, addr: addr, name: "ip:" + group.Addr().String()}
	if !group.IsSingleIP() {
		h.name = "ip:" + group.String()
	}
	for _, p := range a.trusted {
		h.trusted = h.trusted || p.Contains(addr)
	}
	return h
}

// Client returns the caller's address, and whether the connection is one of a
// trusted proxy.
func (i *Identifier) Client(header http.Header, remote string) (client netip.Addr, trusted bool) {
	socket := i.addresses.hop(remote)
	return i.addresses.client(header, socket).addr, socket != nil && socket.trusted
}

// Group returns the entity of the group that an address belongs to; "" if it is
// none.
func (i *Identifier) Group(address string) string {
	if h := i.addresses.hop(address); h != nil {
		return h.name
	}
	return ""
}

// ClientHeader returns the header in which trusted proxies send the address.
func (i *Identifier) ClientHeader() string { return i.addresses.header }
