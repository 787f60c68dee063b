package idempotency

import (
	"maps"
	"sync"
)

// Stats are figures of what happened to requests with a key.
type Stats struct {
	FirstRuns     int64 `json:"firstRuns"`     // claimed and run
	Replays       int64 `json:"replays"`       // answered with a stored response
	Conflicts     int64 `json:"conflicts"`     // came while another was running
	Mismatches    int64 `json:"mismatches"`    // used a key for something else
	Takeovers     int64 `json:"takeovers"`     // run after an earlier run crashed or failed
	Unknown       int64 `json:"unknown"`       // told that the outcome is unknown
	NotKept       int64 `json:"notKept"`       // told that the response was not kept
	Released      int64 `json:"released"`      // run, with nothing stored
	Lost          int64 `json:"lost"`          // runs that ended after their claim was lost
	Unavailable   int64 `json:"unavailable"`   // came while the store was away
	Sent          int64 `json:"sent"`          // outgoing calls that were accepted
	Tries         int64 `json:"tries"`         // attempts at outgoing calls
	BytesStored   int64 `json:"bytesStored"`   // of results
	BytesReplayed int64 `json:"bytesReplayed"` // of bodies
}

// figures are the names under which stores keep each field. A store passes on
// names that it does not know, from a newer node.
func (s *Stats) figures() []figure {
	return []figure{
		{"first_runs", &s.FirstRuns}, {"replays", &s.Replays}, {"conflicts", &s.Conflicts},
		{"mismatches", &s.Mismatches}, {"takeovers", &s.Takeovers}, {"unknown", &s.Unknown},
		{"not_kept", &s.NotKept}, {"released", &s.Released}, {"lost", &s.Lost},
		{"unavailable", &s.Unavailable}, {"sent", &s.Sent}, {"tries", &s.Tries},
		{"bytes_stored", &s.BytesStored}, {"bytes_replayed", &s.BytesReplayed},
	}
}

type figure struct {
	name  string
	value *int64
}

// Add adds n to the figure of that name, if there is one.
func (s *Stats) Add(name string, n int64) {
	for _, f := range s.figures() {
		if f.name == name {
			*f.value += n
			return
		}
	}
}

// What a node remembers until it next tells the store is bounded: of more
// tenants or replays than this in so short a time, the rest only counts for
// everyone.
const (
	mostTenants = 1000
	mostReplays = 5000
)

// activity collects what happens until it is noted in the store.
type activity struct {
	mu      sync.Mutex
	local   Stats // since the start
	all     Stats // since it was last told
	tenants map[string]*Stats
	replays map[ID]*Replayed
}

// count adds what change does.
func (a *activity) count(tenant string, change func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.local)
	change(&a.all)
	s, ok := a.tenants[tenant]
	if !ok {
		if len(a.tenants) >= mostTenants {
			return
		}
		if a.tenants == nil {
			a.tenants = make(map[string]*Stats)
		}
		s = new(Stats)
		a.tenants[tenant] = s
	}
	change(s)
}

func (a *activity) replayed(id ID, answer *Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.replays[id]
	if !ok {
		if len(a.replays) >= mostReplays {
			return
		}
		if a.replays == nil {
			a.replays = make(map[ID]*Replayed)
		}
		r = &Replayed{ID: id, Tenant: answer.Record.Scope.Tenant}
		a.replays[id] = r
	}
	r.N++
	r.At = answer.Now
}

// forget drops what is not told yet about tenants. For everyone it counts.
func (a *activity) forget(whose Whose) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.tenants, func(tenant string, _ *Stats) bool { return whose.Has(tenant) })
	maps.DeleteFunc(a.replays, func(_ ID, r *Replayed) bool { return whose.Has(r.Tenant) })
}

// take is what there is to tell, or nil.
func (a *activity) take() *Activity {
	a.mu.Lock()
	all, tenants, replays := a.all, a.tenants, a.replays
	a.all, a.tenants, a.replays = Stats{}, nil, nil
	a.mu.Unlock()
	var news Activity
	add := func(s *Stats, c Count) {
		for _, f := range s.figures() {
			if *f.value != 0 {
				c.Name, c.N = f.name, *f.value
				news.Counts = append(news.Counts, c)
			}
		}
	}
	add(&all, Count{Everyone: true})
	for tenant, s := range tenants {
		add(s, Count{Tenant: tenant})
	}
	for _, r := range replays {
		news.Replays = append(news.Replays, *r)
	}
	if len(news.Counts) == 0 && len(news.Replays) == 0 {
		return nil
	}
	return &news
}
