package idempotency

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// MemoryConfig of a memory store. The zero MemoryConfig is a good one.
type MemoryConfig struct {
	// MaxRecords bounds the number of records. 0 means 100,000. A claim beyond
	// it is answered with [ErrFull]: a record that is thrown away is a write
	// that runs twice.
	MaxRecords int

	// MaxBytes bounds the memory of records. 0 means 256 MiB. A response
	// beyond it is not kept, but that there was one is.
	MaxBytes int64

	// Clock replaces the time, for tests.
	Clock func() time.Time
}

const (
	defaultRecords = 100_000
	defaultBytes   = 256 << 20
	memoryTenants  = 10_000
	recordOverhead = 700 // bytes of a record without its names and result
	resultReserve  = 256 // of them are always there: enough to say that there was one
)

// Memory is a [Store] in this process. Others do not see it, and it ends with
// the process.
type Memory struct {
	config MemoryConfig

	mu      sync.Mutex
	records map[ID]*entry
	owners  map[string]map[string]map[ID]*entry // by namespace and tenant
	queue   expiries
	bytes   int64
	all     Stats
	tenants map[string]*tenantStats
	closed  bool
}

var _ Store = (*Memory)(nil)

type entry struct {
	Record
	id    ID
	place int // in the queue
}

type tenantStats struct {
	Stats
	at time.Time
}

// NewMemory returns an empty store.
func NewMemory(config MemoryConfig) (*Memory, error) {
	if config.MaxRecords == 0 {
		config.MaxRecords = defaultRecords
	}
	if config.MaxBytes == 0 {
		config.MaxBytes = defaultBytes
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	switch {
	case config.MaxRecords < 1:
		return nil, fmt.Errorf("idempotency: MaxRecords: %d: must be at least 1", config.MaxRecords)
	case config.MaxBytes < 1<<10:
		return nil, fmt.Errorf("idempotency: MaxBytes: %d: must be at least 1024", config.MaxBytes)
	}
	return &Memory{
		config: config, records: make(map[ID]*entry), owners: make(map[string]map[string]map[ID]*entry), tenants: make(map[string]*tenantStats),
	}, nil
}

// enter locks the store and answers the time, if the store can be used.
func (m *Memory) enter(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return time.Time{}, fmt.Errorf("idempotency: memory: %w", sluice.ErrClosed)
	}
	return m.config.Clock(), nil
}

// Claim decides by [Decide].
func (m *Memory) Claim(ctx context.Context, c *Claim) (Answer, error) {
	now, err := m.enter(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer m.mu.Unlock()
	id := c.Scope.ID()
	e := m.records[id]
	var found *Record
	if e != nil {
		found = &e.Record
	}
	verdict, next := Decide(found, c, now)
	if e == nil {
		e = &entry{id: id, Record: *next}
		if m.full(e) {
			m.sweep(now, 16)
		}
		if m.full(e) {
			return Answer{}, fmt.Errorf("idempotency: memory: %w: %w: %d records, %d bytes", sluice.ErrUnavailable, ErrFull, len(m.records), m.bytes)
		}
		m.add(e)
	} else if next != nil {
		m.replace(e, *next)
	}
	return m.answer(verdict, e, now), nil
}

// full reports whether there is no room for another.
func (m *Memory) full(e *entry) bool {
	return len(m.records) >= m.config.MaxRecords || m.bytes+e.weight() > m.config.MaxBytes
}

func (m *Memory) answer(v Verdict, e *entry, now time.Time) Answer {
	a := Answer{Verdict: v, Record: e.at(now), Now: now}
	if v != Finished {
		a.Record.Result = nil
	}
	return a
}

// at is the record as it looks at a time.
func (e *entry) at(now time.Time) Record {
	r := e.Record
	r.Crashed = r.State == Running && !now.Before(r.ClaimEnds)
	return r
}

func (e *entry) weight() int64 {
	s := &e.Scope
	return int64(recordOverhead + len(s.Tenant) + len(s.Method) + len(s.Route) + len(s.Key) + max(resultReserve, len(e.Result)))
}

func (m *Memory) replace(e *entry, r Record) {
	m.bytes -= e.weight()
	e.Record = r
	m.bytes += e.weight()
	heap.Fix(&m.queue, e.place)
}

func (m *Memory) add(e *entry) {
	m.records[e.id] = e
	m.bytes += e.weight()
	heap.Push(&m.queue, e)
	m.own(e)
}

func (m *Memory) remove(e *entry) {
	m.bytes -= e.weight()
	heap.Remove(&m.queue, e.place)
	delete(m.records, e.id)
	m.disown(e)
}

// held locks m and finds the record of a claim. Unless there is an error, the
// caller unlocks.
func (m *Memory) held(ctx context.Context, id ID, token Token) (*entry, time.Time, error) {
	now, err := m.enter(ctx)
	if err != nil {
		return nil, now, err
	}
	e := m.records[id]
	if e == nil || e.Token != token || !now.Before(e.Expires) {
		m.mu.Unlock()
		return nil, now, ErrLost
	}
	return e, now, nil
}

// Extend moves the end of a claim.
func (m *Memory) Extend(ctx context.Context, id ID, token Token, life time.Duration) error {
	e, now, err := m.held(ctx, id, token)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if e.State != Running {
		return ErrLost
	}
	e.Life, e.ClaimEnds = life, now.Add(life)
	return nil
}

// Finish stores a result.
func (m *Memory) Finish(ctx context.Context, f *Finish) error {
	e, now, err := m.held(ctx, f.ID, f.Token)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if e.State != Running {
		if e.State != f.State {
			return ErrLost
		}
		return nil
	}
	result := f.Result
	if m.bytes+int64(len(result)) > m.config.MaxBytes {
		if result, err = withoutBody(result); err != nil {
			return err
		}
	}
	r := e.Record
	r.State, r.Finished, r.Expires = f.State, now, now.Add(f.TTL)
	r.Result, r.Size = slices.Clone(result), int64(len(result))
	m.replace(e, r)
	return nil
}

// withoutBody is a result of which only is known that there was one.
func withoutBody(result []byte) ([]byte, error) {
	r, err := DecodeResponse(result)
	if err != nil {
		return nil, err
	}
	r.Header, r.Body = nil, nil
	if r.Lost == "" {
		r.Lost = TooLarge
	}
	return r.Encode()
}

// Release ends a running claim.
func (m *Memory) Release(ctx context.Context, id ID, token Token) error {
	e, _, err := m.held(ctx, id, token)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if e.State != Running {
		return ErrLost
	}
	m.remove(e)
	return nil
}

// Lookup finds a record.
func (m *Memory) Lookup(ctx context.Context, id ID) (Record, error) {
	now, err := m.enter(ctx)
	if err != nil {
		return Record{}, err
	}
	defer m.mu.Unlock()
	e := m.records[id]
	if e == nil || !now.Before(e.Expires) {
		return Record{}, ErrNotFound
	}
	return e.at(now), nil
}

// Forget deletes a record.
func (m *Memory) Forget(ctx context.Context, id ID) error {
	now, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	e := m.records[id]
	if e == nil {
		return ErrNotFound
	}
	expired := !now.Before(e.Expires)
	m.remove(e)
	if expired {
		return ErrNotFound
	}
	return nil
}

// Sweep deletes expired records.
func (m *Memory) Sweep(ctx context.Context, most int) (int, error) {
	now, err := m.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	for tenant, t := range m.tenants {
		if now.Sub(t.at) > KeepStats {
			delete(m.tenants, tenant)
		}
	}
	return m.sweep(now, most), nil
}

func (m *Memory) sweep(now time.Time, most int) int {
	n := 0
	for ; n < most && len(m.queue) > 0 && !now.Before(m.queue[0].Expires); n++ {
		m.remove(m.queue[0])
	}
	return n
}

// Size is how many records there are, and the bytes they take up.
func (m *Memory) Size() (records int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records), m.bytes
}

// Close forgets everything.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.records, m.owners, m.queue, m.bytes = true, nil, nil, nil, 0
	return nil
}

// expiries are the records in order of their expiry: a heap.
type expiries []*entry

func (q expiries) Len() int           { return len(q) }
func (q expiries) Less(i, j int) bool { return q[i].Expires.Before(q[j].Expires) }

func (q expiries) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push adds an entry, for package heap.
func (q *expiries) Push(x any) {
	e := x.(*entry)
	e.place = len(*q)
	*q = append(*q, e)
}

// Pop takes the last one, for package heap.
func (q *expiries) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
