package identity

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
)

// host is an address as somebody wrote it, and what is known about it.
type host struct {
	text    string // without a port
	addr    netip.Addr
	name    string // the entity of the group that it belongs to
	trusted bool   // it is one of our proxies
}

// nobody is the group of callers whose connection has no address. They share
// their limits, which is not the same as having none.
var nobody = &host{name: "ip:unknown"}

// hosts remembers what was read, so that a caller who comes again costs no
// memory and little time.
type hosts struct {
	seed   maphash.Seed
	recent [1024]atomic.Pointer[host] // found without a lock
	shards [16]hostShard
}

// hostShard forgets the half that was not asked for lately.
type hostShard struct {
	mu       sync.Mutex
	now, old map[string]*host
}

const hostsPerShard = 2048

// find is the host with this text, which is read if it is not remembered; nil
// if it is no address.
func (hs *hosts) find(text string, read func(string) *host) *host {
	hash := maphash.String(hs.seed, text)
	recent := &hs.recent[hash%uint64(len(hs.recent))]
	h := recent.Load()
	if h != nil && h.text == text {
		return h
	}
	if h = hs.shards[hash>>32%uint64(len(hs.shards))].find(text, read); h != nil {
		recent.Store(h)
	}
	return h
}

func (s *hostShard) find(text string, read func(string) *host) *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.now[text]; h != nil {
		return h
	}
	h := s.old[text]
	if h == nil {
		if h = read(strings.Clone(text)); h == nil {
			return nil
		}
	}
	if s.now == nil || len(s.now) >= hostsPerShard {
		s.now, s.old = map[string]*host{}, s.now
	}
	s.now[h.text] = h
	return h
}
