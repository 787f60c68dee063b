package catalog

import (
	"cmp"
	"context"
	"maps"
	"slices"
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
	first     []answer // some of them
}

type answer struct {
	asked asked
	found *Resolution
}

// maxFirst is how many answers are compared one by one before all are looked
// up. Strings of one policy are mostly the same memory, so that comparing a few
// is quicker than hashing one.
const maxFirst = 4

// find returns the answer to k; nil if it is not known.
func (a *answers) find(k *asked) *Resolution {
	for i := range a.first {
		if a.first[i].asked == *k {
			return a.first[i].found
		}
	}
	return a.all[*k]
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
		if s.Tier == "" {
			s.Tier = s.File.KeyTiers[s.Entity]
		}
		s.Entity = ""
	}
	key := asked{s.Entity, s.Tier, cmp.Or(s.Resources, s.Resource), s.Resources != ""}
	if known := d.answers.Load(); known.about(&s) {
		if r := known.find(&key); r != nil {
			return r, nil
		}
	}
	r, err := newResolver(s, d.Default).resolve(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &answers{file: s.File, namespace: s.Namespace, all: map[asked]*Resolution{key: r}}
	if known := d.answers.Load(); known.about(&s) && len(known.all) < maxAnswers {
		maps.Copy(next.all, known.all)
		next.first = slices.Clone(known.first)
	}
	if len(next.first) < maxFirst {
		next.first = append(next.first, answer{key, r})
	}
	d.answers.Store(next)
	return r, nil
}
