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

// answers are never changed in place, so that reading takes no lock.
type answers struct {
	file *Declaration
	all  map[Subject]*Resolution
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
		s.Entity = ""
	}
	if _, there := s.File.Tiers[s.Tier]; !there && s.Entity == "" {
		s.Tier = cmp.Or(s.File.DefaultTier, s.Tier)
	}
	if known := d.answers.Load(); known != nil && known.file == s.File {
		if r := known.all[s]; r != nil {
			return r, nil
		}
	}
	r, err := newResolver(s, d.Default).resolve(ctx)
	if err == nil {
		d.remember(s, r)
	}
	return r, err
}

func (d *Declared) remember(s Subject, r *Resolution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &answers{s.File, map[Subject]*Resolution{}}
	if known := d.answers.Load(); known != nil && known.file == s.File && len(known.all) < maxAnswers {
		maps.Copy(next.all, known.all)
	}
	next.all[s] = r
	d.answers.Store(next)
}
