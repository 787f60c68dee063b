package idempotency

import (
	"context"
	"maps"
)

// own notes whose a record is.
func (m *Memory) own(e *entry) {
	namespace := NamespaceOf(e.Scope.Tenant)
	tenants := m.owners[namespace]
	if tenants == nil {
		tenants = make(map[string]map[ID]*entry)
		m.owners[namespace] = tenants
	}
	if tenants[e.Scope.Tenant] == nil {
		tenants[e.Scope.Tenant] = make(map[ID]*entry)
	}
	tenants[e.Scope.Tenant][e.id] = e
}

// disown is its opposite.
func (m *Memory) disown(e *entry) {
	namespace := NamespaceOf(e.Scope.Tenant)
	tenants := m.owners[namespace]
	delete(tenants[e.Scope.Tenant], e.id)
	if len(tenants[e.Scope.Tenant]) == 0 {
		delete(tenants, e.Scope.Tenant)
	}
	if len(tenants) == 0 {
		delete(m.owners, namespace)
	}
}

// ForgetAll deletes records of a tenant or a namespace.
func (m *Memory) ForgetAll(ctx context.Context, whose Whose, most int) (n int, err error) {
	if _, err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	forget := func(records map[ID]*entry) {
		for _, e := range records {
			if n == most {
				return
			}
			m.remove(e)
			n++
		}
	}
	if tenants := m.owners[NamespaceOf(whose.Tenant)]; whose.Below {
		for tenant, records := range tenants {
			if whose.Has(tenant) {
				forget(records)
			}
		}
	} else {
		forget(tenants[whose.Tenant])
	}
	if n < most {
		maps.DeleteFunc(m.tenants, func(tenant string, _ *tenantStats) bool { return whose.Has(tenant) })
	}
	return n, nil
}
