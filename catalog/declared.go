package catalog

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"
)

// Declared is a [Resolver] for those who have no catalog: what the policy
// file of the subject declares, and else a default. It remembers its answers,
// of which there are few: entities that the file does not name share them.
// The zero Declared is ready, and it is safe for concurrent use.
type Declared struct {
	// Default are the limits that apply where the file has none.
	Default Limits

	mu      sync.Mutex // for those who add to the answers
	answers atomic.Pointer[answers]
}

// answers are those about one file and namespace. They are never changed in
// place, so that reading takes no lock.
type answers struct {
	file      *Declaration
	namespace string
	all       map[asked]*Resolution
}

// asked is what differs between subjects under one file.
type asked struct {
	entity, tier, resource string
	several                bool // resources
}

func (a *answers) about(s *Subject) bool {
	return a != nil && a.file == s.File && a.namespace == s.Namespace
}

// maxAnswers bounds what is remembered: callers can bring tiers of their own.
const maxAnswers = 4096

// Resolve finds the limits that the file declares for s.
func (d *Declared) Resolve(ctx context.Context, s Subject) (*Resolution, error) {
	if s.File == nil {
		s.File = nothing
	}
	s = s.known()
	if _, named := s.File.Entities[s.Entity]; !named {
		s.Tier = cmp.Or(s.Tier, s.File.KeyTiers[s.Entity])
		s.Entity = ""
	}
	key := asked{s.Entity, s.Tier, cmp.Or(s.Resources, s.Resource), s.Resources != ""}
	if known := d.answers.Load(); known.about(&s) {
		if r := known.all[key]; r != nil {
			return r, nil
		}
	}
	r, err := newResolver(s, d.Default).resolve(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &answers{s.File, s.Namespace, map[asked]*Resolution{key: r}}
	if known := d.answers.Load(); known.about(&s) && len(known.all) < maxAnswers {
		maps.Copy(next.all, known.all)
	}
	d.answers.Store(next)
	return r, nil
}
