package limitstore

import (
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// specs are the limits seen so far, prepared for arithmetic. Programs use few
// limits; should one make them up, all are forgotten now and then.
type specs struct {
	mu      sync.RWMutex
	byLimit map[sluice.Limit]*bucket.Spec
}

const maxSpecs = 10_000

func (ss *specs) compile(l *sluice.Limit) (*bucket.Spec, error) {
	ss.mu.RLock()
	spec := ss.byLimit[*l]
	ss.mu.RUnlock()
	if spec != nil {
		return spec, nil
	}
	spec, err := bucket.Compile(*l)
	if err != nil {
		return nil, err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.byLimit == nil || len(ss.byLimit) >= maxSpecs {
		ss.byLimit = map[sluice.Limit]*bucket.Spec{}
	}
	ss.byLimit[*l] = spec
	return spec, nil
}
