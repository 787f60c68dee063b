package world

import (
	"fmt"
	"slices"
	"strings"
)

// Shrink returns the plan with as few of its faults as still make it fail the
// way it did: of the same check. play plays a plan.
func Shrink(p Plan, check string, play func(Plan) *Report) Plan {
	fails := func(p Plan) bool {
		return slices.ContainsFunc(play(p).Failures, func(f Failure) bool { return f.Check == check })
	}
	without := func(i, n int) Plan {
		less := p
		less.Faults = slices.Delete(slices.Clone(p.Faults), i, i+n)
		return less
	}
	if none := without(0, len(p.Faults)); len(p.Faults) > 0 && fails(none) {
		return none
	}
	for i := 0; i < len(p.Faults); {
		if less := without(i, 1); fails(less) {
			p = less
		} else {
			i++
		}
	}
	return p
}

// Explain says everything about a world that failed: its seed, the shortest
// list of faults that still fails, what failed, the history around it, and how
// to play it again.
func Explain(r *Report, play func(p Plan, keep bool) *Report) string {
	first := r.Failures[0]
	least := Shrink(r.Plan, first.Check, func(p Plan) *Report { return play(p, false) })
	again := play(least, true)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s\n", r.Plan.Seed, first)
	if i := slices.IndexFunc(again.Failures, func(f Failure) bool { return f.Check == first.Check }); i >= 0 {
		first = again.Failures[i]
		fmt.Fprintf(&b, "with %d of its %d faults: %s\n", len(least.Faults), len(r.Plan.Faults), first)
	}
	for _, f := range least.Faults {
		fmt.Fprintf(&b, "  fault: %s\n", f)
	}
	fmt.Fprintf(&b, "%s", again.around(first.At))
	fmt.Fprintf(&b, "replay: go test ./world -run '^TestWorlds$' -world.seed %d%s\n", r.Plan.Seed, dropped(r.Plan, least))
	return b.String()
}

// dropped is the flag that leaves out the faults that a plan has more.
func dropped(full, least Plan) string {
	var left []string
	for i, f := range full.Faults {
		if !slices.Contains(least.Faults, f) {
			left = append(left, fmt.Sprint(i))
		}
	}
	if len(left) == 0 {
		return ""
	}
	return " -world.without " + strings.Join(left, ",")
}
