package limitstore

import (
	"cmp"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
)

// rowKey is a key as it is in the table.
type rowKey struct{ namespace, entity, resource, limit string }

func rowKeyOf(k *sluice.Key) rowKey {
	return rowKey{postgres.Text(k.Namespace), postgres.Text(k.Entity), postgres.Text(k.Resource), postgres.Text(k.Limit)}
}

func (k *rowKey) key() sluice.Key {
	return sluice.Key{
		Namespace: postgres.Untext(k.namespace), Entity: postgres.Untext(k.entity),
		Resource: postgres.Untext(k.resource), Limit: postgres.Untext(k.limit),
	}
}

// compare is the order of the table's primary key, in which buckets are
// locked by everybody.
func (k *rowKey) compare(l *rowKey) int {
	return cmp.Or(
		strings.Compare(k.namespace, l.namespace),
		strings.Compare(k.entity, l.entity),
		strings.Compare(k.resource, l.resource),
		strings.Compare(k.limit, l.limit),
	)
}
