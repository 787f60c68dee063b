// Package catalog knows what is limited, by how much, who changed it, and
// what was used.
//
// An entity (a user, an API key, a company) may have a parent, to which its
// takes cascade, and a tier. Limits are stored for an entity, a tier, a
// resource or the whole system. [Catalog.Resolve] finds those that apply to
// one entity's use of one resource and turns them into [sluice.Demand]s; it
// answers from memory, and hears of changes within a second.
//
// Everything lives in a namespace, and every change is one atomic batch with
// its audit events. The rules (no cycles, a tier must exist, no lost update)
// are kept here, above a [Store] that needs only keys, a few indexes and a
// transaction. Package catalogtest is what every store must pass.
package catalog
