package schedule

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// family are the schedulers of one store in this process, one for each namespace.
type family struct {
	config Config
	stats  *Stats

	mu      sync.Mutex
	members map[string]*Scheduler
}

// maxMembers bounds the schedulers that are remembered.
const maxMembers = 1000

// In returns a scheduler for another namespace, which shares the store, the
// settings and the statistics with s. There is nothing to close.
func (s *Scheduler) In(namespace string) (*Scheduler, error) {
	if namespace == s.namespace {
		return s, nil
	}
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	return s.family.member(namespace), nil
}

func checkNamespace(name string) error {
	if len(name) > sluice.MaxKeyPart || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return badinput.Field("namespace", name, "must be at most 255 bytes of text")
	}
	return nil
}

// member returns the scheduler of a namespace.
func (f *family) member(namespace string) *Scheduler {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.members[namespace]; s != nil {
		return s
	}
	c := &f.config
	s := &Scheduler{store: c.Store, namespace: namespace, log: c.Log, stats: f.stats, retention: c.Retention, reclaim: c.Reclaim, family: f, stop: func() {}}
	if namespace != "" {
		s.log = c.Log.With("namespace", namespace)
	}
	s.clock.given = c.Clock
	s.plans = planCache{store: c.Store, namespace: namespace, ttl: c.CacheTTL, clock: &s.clock, log: s.log, stats: f.stats}
	s.combine()
	if len(f.members) >= maxMembers { // they come back when they are asked for
		first := f.members[c.Namespace]
		clear(f.members)
		f.members[c.Namespace] = first
	}
	f.members[namespace] = s
	return s
}

// flush forgets the plans of all namespaces.
func (f *family) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.members {
		s.plans.flush()
	}
}

// Everywhere calls f with s, and then with the schedulers of all other namespaces
// of the store that have plans, until it returns an error.
func (s *Scheduler) Everywhere(ctx context.Context, f func(*Scheduler) error) error {
	err := f(s)
	if err == nil && s.namespace != "" {
		err = f(s.family.member(""))
	}
	if err != nil {
		return err
	}
	for after := ""; ; {
		names, err := s.store.Namespaces(ctx, after, maxPage)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == s.namespace {
				continue
			}
			if err := f(s.family.member(name)); err != nil {
				return err
			}
		}
		if len(names) < maxPage {
			return nil
		}
		after = names[len(names)-1]
	}
}
