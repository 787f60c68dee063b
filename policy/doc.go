// Package policy reads the policy file: which limits apply to which requests,
// for whom, at what cost, and how callers are told.
//
// A [Policy] is what a file means, compiled once and never changed. It only
// declares and matches. For a request, [Policy.Match] finds the endpoint and the
// sets of limits that apply, without allocating, in a time that does not depend
// on the number of rules. The numbers of the sets for a caller come from a
// [catalog.Resolver], which is given [Policy.Declared].
//
// [Parse] and [Load] report every mistake of a file at once, as [Mistakes].
// [Watch] keeps a [Live] policy that follows its file.
//
// # Which limits apply
//
// All sets of limits whose patterns match a request apply to it together, so
// that adding a narrow limit never switches a wide one off. The settings of an
// endpoint, such as its cost, come from the most specific pattern alone.
//
// # Paths that can be read in several ways
//
// Servers disagree about %2F, dot segments, doubled slashes and parameters
// after a semicolon. [Policy.Match] therefore tries every reading of such a
// path, and what they mean is charged together: the limits of all, each at the
// highest cost. Nobody gets past a limit by writing a path strangely.
package policy
