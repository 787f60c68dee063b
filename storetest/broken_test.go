package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// TestSuiteCatches proves the suite: each of these stores has one fault, of a
// kind that real ones have had, and has to be caught by the checks that are
// about it and, where the fault shows in answers, by a random one too.
func TestSuiteCatches(t *testing.T) {
	for _, broken := range []struct {
		fault string
		make  func(*Model) sluice.Store
		by    []string // checks that must report it
	}{
		{"compensates drift in the caller's favour", mintsRemainder, []string{"trap: asking often mints tokens", "random: token buckets"}},
		{"drops the remainder", dropsRemainder, []string{"trap: asking often mints tokens", "random: token buckets"}},
		{"lets time rewind", rewinds, []string{"trap: a late timestamp rewinds the bucket", "token bucket: the clock goes back", "random: the clock goes back"}},
		{"takes limits one by one", oneByOne, []string{"trap: tokens spent on one limit when another refused", "several limits: all or nothing", "concurrent: all or nothing"}},
		{"consumes when peeking", peekConsumes, []string{"peek", "random: token buckets"}},
		{"refunds above full", refundsAboveFull, []string{"adjust: debt and refund", "random: token buckets"}},
		{"forgives debt", forgivesDebt, []string{"adjust: debt and refund", "random: token buckets"}},
		{"credits a late return", creditsLateReturn, []string{"hold: what has expired is spent", "trap: holding back and forth mints tokens", "random: holds"}},
		{"gives back what expired in a node's hands", returnsExpired, []string{"hold: what has expired is spent", "random: holds"}},
		{"never recalls", neverRecalls, []string{"hold: recalled for a larger take", "random: holds"}},
		{"says to retry a microsecond early", retriesEarly, []string{"trap: a wait that is a microsecond off", "random: token buckets"}},
		{"says to retry a microsecond late", retriesLate, []string{"trap: a wait that is a microsecond off", "random: fixed windows"}},
		{"tells not yet where it is never", neverIsNotYet, []string{"trap: a cost above the burst is told to retry", "random: token buckets"}},
		{"burns the fraction it does not grant", burnsFraction, []string{"trap: granting 2 and burning 2.9", "random: token buckets"}},
		{"lets others push in", pushesIn, []string{"ticket: served in order of rank", "random: waiting"}},
		{"serves the last first", servesLastFirst, []string{"ticket: served in order of rank", "random: waiting"}},
		{"keeps the ticket of who gave up", neverLeaves, []string{"ticket: who gives up costs nobody anything"}},
		{"books what came back", booksWhatCameBack, []string{"adjust: debt and refund", "random: token buckets"}},
		{"shows what is held as used", heldIsUsed, []string{"hold and return", "random: holds"}},
		{"remembers no request ids", forgetsIDs, []string{"request id", "concurrent: a request id takes once"}},
		{"repeats for any take with the id", repeatsBlindly, []string{"request id"}},
		{"remembers refusals", remembersRefusals, []string{"request id: a refusal is not remembered unless it counted", "random: leases"}},
		{"releases twice", releasesTwice, []string{"lease: release", "concurrent: a lease is released once", "random: leases"}},
		{"settles what has expired", settlesExpired, []string{"lease: renewed and expired", "random: leases"}},
		{"refunds from a window that is over", refundsOldWindow, []string{"lease: a window that is over gives nothing back"}},
		{"goes back to the lease's limit", settlesOldLimit, []string{"lease: the limit has changed since"}},
		{"keeps the caller's demands", keepsDemands, []string{"contract: what callers do with their memory", "random: leases"}},
		{"blocks for a shadow", shadowBlocks, []string{"shadow", "random: token buckets"}},
		{"does not count what it refused", ignoresCounting, []string{"count refused", "random: fixed windows"}},
		{"ends windows a microsecond late", lateBoundary, []string{"fixed window", "sliding window", "calendar month", "random: fixed windows"}},
		{"never frees a lost holder", immortalHolders, []string{"concurrency", "trap: a lease that is never closed holds its place for ever", "random: leases"}},
		{"starts anew when a limit changes", mintsOnChange, []string{"limit change: raised", "trap: nodes that disagree about a limit mint tokens", "random: changing limits"}},
		{"changes the limit by a refusal", refusalChangesLimit, []string{"limit change: a refusal is none", "random: changing limits"}},
		{"forgets buckets that are nearly full", forgetsEarly, []string{"trap: a bucket is forgotten just before it is full", "random: token buckets"}},
		{"glues keys together", gluesKeys, []string{"contract: the parts of a key are kept apart"}},
		{"leaves old fields in the decision", leavesFields, []string{"contract: a used decision is written over"}},
		{"forgets nobody", forgetsNobody, []string{"contract: what is forgotten is unknown"}},
		{"lists the first page for ever", firstPageOnly, []string{"contract: list finds by entity and resource, in pages"}},
		{"looks, then takes", looksThenTakes, []string{"concurrent: exactly the burst passes", "concurrent: token bucket within its bound in every interval"}},
		{"forgets holds after the first take of a batch", batchForgetsHolds, []string{"concurrent: every answer is the model's, in some order"}},
		{"mixes up the answers of a batch", batchMixesUp, []string{"concurrent: every answer is the model's, in some order"}},
		{"decides a batch on the state that it found", batchIsStale, []string{"concurrent: every answer is the model's, in some order"}},
	} {
		t.Run(broken.fault, func(t *testing.T) {
			open := func(_ testing.TB, now func() time.Time) sluice.Store { return broken.make(NewModel(now)) }
			todo := slices.Clone(broken.by)
			for _, c := range (Config{Steps: 8000, Seed: 20}).Checks() {
				i := slices.Index(todo, c.Name)
				if i < 0 {
					continue
				}
				todo = slices.Delete(todo, i, i+1)
				if runRecovering(t, c, open) == nil {
					t.Errorf("not caught by %q", c.Name)
				}
			}
			for _, name := range todo {
				t.Errorf("there is no check %q", name)
			}
		})
	}
}

// runRecovering takes a panic of the store for an error.
func runRecovering(t *testing.T, c Check, open Open) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return c.Run(t, open)
}

// TestSuitePassesTheModel is the other side of the proof, with the same seed.
func TestSuitePassesTheModel(t *testing.T) {
	for _, c := range (Config{Steps: 8000, Seed: 20}).Checks() {
		if err := c.Run(t, openModel); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
