package policy

import "net/netip"

// List is a list of callers: networks and entities.
type List struct {
	networks map[netip.Prefix]struct{}
	bits4    []int // the lengths of the IPv4 networks in it
	bits6    []int
	entities map[string]struct{}
}

// Empty reports whether nobody is on the list.
func (l *List) Empty() bool { return len(l.networks) == 0 && len(l.entities) == 0 }

// HasEntity reports whether an entity, such as key:ci or user:42, is on the
// list.
func (l *List) HasEntity(entity string) bool {
	_, ok := l.entities[entity]
	return ok
}

// HasAddress reports whether an address is in one of the networks on the
// list. It takes one look for each different length of network.
func (l *List) HasAddress(a netip.Addr) bool {
	if len(l.networks) == 0 {
		return false
	}
	a = a.Unmap().WithZone("")
	lengths := l.bits4
	if a.Is6() {
		lengths = l.bits6
	}
	for _, bits := range lengths {
		if p, err := a.Prefix(bits); err == nil {
			if _, ok := l.networks[p]; ok {
				return true
			}
		}
	}
	return false
}
