package idempotency

import (
	"cmp"
	"context"
	"slices"
)

// Note adds to the figures.
func (m *Memory) Note(ctx context.Context, a *Activity) error {
	now, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, c := range a.Counts {
		if c.Everyone {
			m.all.Add(c.Name, c.N)
			continue
		}
		t := m.tenants[c.Tenant]
		if t == nil {
			if len(m.tenants) >= memoryTenants {
				continue
			}
			t = new(tenantStats)
			m.tenants[c.Tenant] = t
		}
		t.Add(c.Name, c.N)
		t.at = now
	}
	for _, r := range a.Replays {
		if e := m.records[r.ID]; e != nil {
			e.Replays += r.N
			if e.Replayed.Before(r.At) {
				e.Replayed = r.At
			}
		}
	}
	return nil
}

// Stats are the figures of a tenant or of everyone.
func (m *Memory) Stats(ctx context.Context, q Query) (Stats, error) {
	if _, err := m.enter(ctx); err != nil {
		return Stats{}, err
	}
	defer m.mu.Unlock()
	if q.Everyone {
		return m.all, nil
	}
	if t := m.tenants[q.Tenant]; t != nil {
		return t.Stats, nil
	}
	return Stats{}, nil
}

// Recent finds the records replayed last.
func (m *Memory) Recent(ctx context.Context, q Query) ([]Record, error) {
	now, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var recent []Record
	for _, e := range m.records {
		if e.Replays > 0 && now.Before(e.Expires) && (q.Everyone || e.Scope.Tenant == q.Tenant) {
			r := e.at(now)
			r.Result = nil
			recent = append(recent, r)
		}
	}
	slices.SortFunc(recent, func(a, b Record) int {
		return cmp.Or(b.Replayed.Compare(a.Replayed), cmp.Compare(a.Scope.Key, b.Scope.Key))
	})
	return recent[:min(len(recent), q.Max)], nil
}
