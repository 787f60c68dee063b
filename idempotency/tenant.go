package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// A tenant's name is a path of one or two steps: a namespace alone, or a
// namespace, a slash and whoever it is inside of it. What stands before the
// first slash is the namespace; after it anything goes.

// Tenant is the name of an entity's tenant in a namespace. One that would be
// too long has a digest in the entity's place.
func Tenant(namespace, entity string) string {
	if t := namespace + "/" + entity; len(t) <= MaxName {
		return t
	}
	sum := sha256.Sum256([]byte(entity))
	return namespace + "/sha256:" + hex.EncodeToString(sum[:])
}

// NamespaceOf is the namespace of a tenant.
func NamespaceOf(tenant string) string {
	namespace, _, _ := strings.Cut(tenant, "/")
	return namespace
}

// Whose says whose records are meant: those of one tenant or, with Below, also
// those of every tenant in the namespace of that name.
type Whose struct {
	Tenant string
	Below  bool
}

// Has reports whether a tenant is meant.
func (w Whose) Has(tenant string) bool {
	return tenant == w.Tenant || w.Below && strings.HasPrefix(tenant, w.Tenant+"/")
}

// IDs are the first and the last id that a record of w can have. There may be
// others between them, though not by accident, so [Whose.Has] decides.
func (w Whose) IDs() (first, last ID) {
	n := idTenant
	if w.Below {
		n = idNamespace
	}
	first = (&Scope{Tenant: w.Tenant}).ID()
	last = first
	for i := n; i < len(first); i++ {
		first[i], last[i] = 0, 0xff
	}
	return first, last
}

// An id begins with a digest of the namespace and one of the tenant, so that
// all records of either lie side by side wherever ids are in order, and are
// found without an index of their own.
const (
	idNamespace = 8  // bytes
	idTenant    = 16 // bytes with the namespace's
)

// Namespace is what the ids of a namespace have in common, and no others.
func (id ID) Namespace() []byte { return id[:idNamespace] }

// ID is the digest of s. Each part comes with its length, so that no two
// scopes are written alike.
func (s *Scope) ID() (id ID) {
	b := make([]byte, 0, 256)
	digest := func(version string, parts ...string) [sha256.Size]byte {
		b = append(b[:0], version...)
		for _, part := range parts {
			b = binary.AppendUvarint(b, uint64(len(part)))
			b = append(b, part...)
		}
		return sha256.Sum256(b)
	}
	sum := digest("sluice namespace 1", NamespaceOf(s.Tenant))
	copy(id[:idNamespace], sum[:])
	sum = digest("sluice tenant 1", s.Tenant)
	copy(id[idNamespace:idTenant], sum[:])
	sum = digest("sluice replay 1", s.Tenant, s.Method, s.Route, s.Key)
	copy(id[idTenant:], sum[:])
	return id
}
