package catalog

import (
	"context"
	"time"
)

// Store is a database that keeps the catalog. It knows nothing of the rules:
// package catalog turns every change into one conditional batch of records,
// so that a store needs only keys, a few indexes and a transaction.
//
// Every record lives in a namespace, and every call but [Store.Find] and
// [Store.Watch] names the only namespace it may see. The root namespace ""
// holds what belongs to the installation: the list of namespaces, and the
// secret that keys are hashed with.
//
// Strings are compared and sorted by their bytes (PostgreSQL: COLLATE "C").
// They are valid UTF-8 without control characters, and at most 255 bytes
// long, except [Record.Sub], which has up to 600. Lists are in the order
// stated, a page at a time; a cursor names the last row of a page, so that
// the next page costs the same however many came before it. No list may scan
// or sort what it does not return.
//
// An error of a call that may nevertheless have taken effect wraps
// [sluice.ErrUnknown]; one of a call that certainly has not, because the
// database could not be reached, wraps [sluice.ErrUnavailable]. Stores are
// safe for concurrent use, by several processes too.
type Store interface {
	// MaxBatch is the largest number of mutations and events together in one
	// [Batch], and of rows in one [UsageBatch]. It is at least 50.
	MaxBatch() int

	// Get reads one record; [ErrNotFound] if there is none. It sees every
	// batch that was acknowledged before it began.
	Get(ctx context.Context, k RecordKey) (Record, error)

	// Find reads a record of a kind whose ids are unique in all namespaces,
	// which are API keys; [ErrNotFound] if there is none.
	Find(ctx context.Context, kind Kind, id string) (Record, error)

	// List reads records of one kind in order of ID, then Sub.
	List(ctx context.Context, q ListQuery) (RecordPage, error)

	// Change applies all of b or nothing, and answers the namespace's new
	// version; see [Batch]. A condition that does not hold is a
	// [*ConflictError]. Once acknowledged, a batch survives a crash.
	Change(ctx context.Context, b *Batch) (version int64, err error)

	// Resolve reads everything that decides which limits apply, in one
	// round trip where the database allows it, from one state; see
	// [ResolveQuery]. Nothing found is no error.
	Resolve(ctx context.Context, q ResolveQuery) ([]Record, error)

	// Events reads audit events in order of their ids, which is that of
	// time, or the other way round.
	Events(ctx context.Context, q EventQuery) (EventPage, error)

	// MarkUsed sets [Record.Used] of API keys where the time given is later,
	// and changes nothing else: no version, no event, nothing to watch.
	// Unknown keys are ignored.
	MarkUsed(ctx context.Context, uses []Use) error

	// AddUsage adds the rows' amounts to what is stored, all or nothing, and
	// does nothing if this batch, or a later one of the same node, was added
	// before: see [UsageBatch]. It is [ErrErased], and nothing is added, if
	// the guard named [ErasedGuard] of a namespace in the batch has another
	// version than the batch says. A batch that changes the guard waits for
	// calls of AddUsage that have looked at it.
	AddUsage(ctx context.Context, b *UsageBatch) error

	// Usage lists rows of one entity or one resource; see [UsageQuery].
	Usage(ctx context.Context, q UsageQuery) (UsagePage, error)

	// SumUsage adds up each series over time; see [UsageQuery].
	SumUsage(ctx context.Context, q UsageQuery) (UsagePage, error)

	// Totals reads the totals of series, at most 1000 of one namespace, in no
	// particular order; those that have none are left out.
	Totals(ctx context.Context, namespace string, series []Series) ([]UsageRow, error)

	// CountSeries counts the series of a namespace that have a total, up to
	// most.
	CountSeries(ctx context.Context, namespace string, most int) (int, error)

	// Purge removes rows for good, at most p.Max of them, and answers how
	// many; fewer than p.Max means that nothing is left. See [Purge].
	Purge(ctx context.Context, p Purge) (removed int, err error)

	// Watch calls changed for every record that any process puts or deletes,
	// within a second after its batch is acknowledged, until ctx is done or
	// the connection is lost, and then returns why. It begins with a call of
	// Changed{All: true}, as soon as no later change can be missed, and
	// calls that again whenever it cannot tell what it has missed. Guards
	// need not be reported. changed does not block; calls do not overlap.
	Watch(ctx context.Context, changed func(Changed)) error

	// Close ends the store. The caller of [Open] stays responsible for it.
	Close() error
}

// Kind is what a record is about.
type Kind string

// The kinds of records, and what ID, Sub and the index fields are in each.
const (
	// KindNamespace: in the root namespace; ID is the namespace's name.
	KindNamespace Kind = "namespace"
	// KindSecret: in the root namespace; ID is its purpose.
	KindSecret Kind = "secret"
	// KindEntity: ID is the entity; Under its parent; Tier its tier.
	KindEntity Kind = "entity"
	// KindTier: ID is the tier.
	KindTier Kind = "tier"
	// KindSystemLimits: the limits of the namespace. ID and Sub are "".
	KindSystemLimits Kind = "system-limits"
	// KindResourceLimits: ID is the resource.
	KindResourceLimits Kind = "resource-limits"
	// KindTierLimits: ID is the tier, Sub the resource or "" for the tier's
	// default; Under is the resource.
	KindTierLimits Kind = "tier-limits"
	// KindEntityLimits: ID is the entity, Sub the resource or "" for the
	// entity's default; Under is the resource.
	KindEntityLimits Kind = "entity-limits"
	// KindOverride: ID is the entity, Sub is limit@resource; Under is the
	// resource.
	KindOverride Kind = "override"
	// KindKey: ID is the public part of an API key, unique in all
	// namespaces; Under is the entity; Tier its tier.
	KindKey Kind = "key"
	// KindErased: ID is the keyed hash of an entity that was erased.
	KindErased Kind = "erased"
	// KindFlush: in the root namespace; has no data. A change of it tells every
	// node to forget what it remembers. ID is "".
	KindFlush Kind = "flush"
	// KindGuard: has no data; its version tells whether anything changed
	// that a rule depends on. ID is the name of the rule.
	KindGuard Kind = "guard"
)

// RecordKey names a record.
type RecordKey struct {
	Namespace string
	Kind      Kind
	ID        string // may be ""
	Sub       string // may be ""
}

// Record is what a store keeps: a key, three fields to list by, and data
// that only package catalog reads.
type Record struct {
	RecordKey

	// Version is the namespace's version as of the last change of this
	// record. Stores set it. So it never repeats, not even after the record
	// was deleted and made anew.
	Version int64

	// Under, Tier and Source are what [Store.List] can select by. Each may
	// be "", and is then not to be found by it. Source names the declaration
	// that the record came from.
	Under, Tier, Source string

	// Used is when an API key was last used. Only [Store.MarkUsed] changes
	// it; a put leaves it alone, and a delete forgets it.
	Used time.Time

	// Data is a JSON object of at most [MaxData] bytes, or empty. A store
	// may give it back formatted differently.
	Data []byte
}

// MaxData is the largest record, in bytes of JSON.
const MaxData = 64 << 10

// Batch is one change: mutations and the audit events that tell of them.
// Either all of it is stored or nothing is.
//
// Batches of one namespace take effect one after the other. Each adds 1 to
// the namespace's version, which begins at 0 and is never reset, and every
// record that it puts gets the new version. Every condition is checked
// against the state before the batch.
type Batch struct {
	// Namespace is whose version counts this batch. Its records and events
	// are of this namespace or of the root one; a root record is always
	// changed by batches of the same namespace.
	Namespace string

	// Mutations name each record at most once.
	Mutations []Mutation

	// Events are appended; their ids are new.
	Events []EventRecord
}

// Op is what a [Mutation] does.
type Op uint8

const (
	// Put stores the record, new or over the old one.
	Put Op = iota
	// Delete removes it. To remove what is not there changes nothing.
	Delete
	// Check changes nothing, only its condition counts.
	Check
)

// Mutation puts, deletes or checks one record if its condition holds.
type Mutation struct {
	Op     Op
	Record Record // Version and Used are ignored; Delete and Check need the key only

	// If is the version that the record must have: a version, or [IfAbsent],
	// [IfPresent] or [IfAny].
	If int64
}

const (
	// IfAbsent demands that there is no such record.
	IfAbsent int64 = 0
	// IfAny demands nothing.
	IfAny int64 = -1
	// IfPresent demands that there is such a record, of any version.
	IfPresent int64 = -2
)

// ListQuery selects records of a kind: all of a namespace, or with one of ID,
// Under, Tier and Source those for which it is equal.
type ListQuery struct {
	Namespace string
	Kind      Kind

	ID, Under, Tier, Source string // at most one is set

	Cursor string // "" starts; then RecordPage.Next
	Max    int    // records a page; package catalog sets 1 to 1000
}

// RecordPage is one page of records.
type RecordPage struct {
	Records []Record
	Next    string // "" after the last page
}

// ResolveQuery asks for all records that decide about an entity's use of a
// resource:
//
//   - the namespace's own record, which is in the root namespace;
//   - the entity and its ancestors, following Under, at most [MaxDepth]
//     entities in all;
//   - the entity limits of each of these, and of Entity even if it has no
//     record, with Sub "" and, if Resource is set, Sub = Resource;
//   - all overrides of the same entities;
//   - the tier record and the tier limits (Sub "" and Resource) of Tier and
//     of every tier that these entities are in;
//   - the limits of Resource, and of the system.
//
// Their order does not matter. Entity, Tier and Resource may be "", and are
// then left out.
type ResolveQuery struct {
	Namespace, Entity, Tier, Resource string
}

// EventRecord is an audit event as it is stored.
type EventRecord struct {
	Namespace string
	Subject   string // what was changed: an entity, or $SYSTEM and the like
	ID        string // unique in the namespace; sorts by time
	Data      []byte // JSON
}

// EventQuery selects events of a namespace, or of one subject in it.
type EventQuery struct {
	Namespace string
	Subject   string // "" for all
	From, To  string // ids: From <= ID < To; "" leaves an end open
	Newest    bool   // newest first
	Cursor    string // "" starts; then EventPage.Next
	Max       int    // events a page; package catalog sets 1 to 1000
}

// EventPage is one page of events.
type EventPage struct {
	Events []EventRecord
	Next   string // "" after the last page
}

// Use is when an API key was used.
type Use struct {
	Namespace, ID string
	At            time.Time
}

// Target is what a [Purge] removes.
type Target uint8

const (
	// PurgeUsage removes usage rows: of Entity if set, or else of Span and
	// before Before if they are set, of all namespaces if Namespace is "".
	// Span and Before come together. Of totals these are the series that
	// were last taken before Before and have no daily rows left.
	PurgeUsage Target = iota
	// PurgeEvents removes audit events: of Subject Entity if set, and with
	// ids below BeforeID if set.
	PurgeEvents
	// PurgeRecords removes all records of the namespace, whatever their
	// kind. The namespace's version and the root namespace stay.
	PurgeRecords
	// PurgeChanges takes the name Entity out of the log of changes that
	// [Store.Watch] reads. What is left of them says that anything in the
	// namespace may have changed.
	PurgeChanges
	// PurgeNodes forgets the batch numbers of nodes that have added no usage
	// since Before. Namespace is "".
	PurgeNodes
)

// Purge removes rows for good: for erasing an entity, for deleting a
// namespace, and for retention. It need not be atomic.
type Purge struct {
	Target    Target
	Namespace string
	Entity    string
	Span      Span
	Before    time.Time
	BeforeID  string
	Max       int // 1 to 10000
}

// Changed names a record that was put or deleted, for caches to forget. All
// means anything may have changed.
type Changed struct {
	All       bool
	Namespace string
	Kind      Kind
	ID        string
}
