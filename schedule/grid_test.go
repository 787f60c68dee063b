package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second / time.Microsecond)

// drawGrid is any grid near zero: some eras, some hours.
func drawGrid(t *rapid.T) *grid {
	g := &grid{max: rapid.IntRange(1, 20).Draw(t, "max"), eras: []Era{{Size: rapid.Int64Range(1, 9).Draw(t, "size") * second}}}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		var used []Window
		for at := int64(0); len(used) < 40; {
			all, _ := g.windows(at+rapid.Int64Range(0, 30).Draw(t, "apart")*second, 1)
			if len(all) == 0 || all[0].Start > 300*second {
				break
			}
			used, at = append(used, all[0]), all[0].Start+all[0].Size
		}
		was, now := *g, rapid.Int64Range(0, 200).Draw(t, "now")*second
		size := rapid.Int64Range(1, 9).Draw(t, "size") * second
		g.eras = NextEras(was.eras, used, now, size)
		for _, w := range used {
			if e, _ := g.era(w.Start); w.Start+w.Size > now && e.Size != w.Size {
				t.Fatalf("window %+v is in an era of %d, of %v; was %v", w, e.Size, g.eras, was.eras)
			}
		}
	}
	if rapid.Bool().Draw(t, "calendar") {
		var b []span
		for range rapid.IntRange(0, 8).Draw(t, "blackouts") {
			from := rapid.Int64Range(0, 300).Draw(t, "from") * second / 2
			b = append(b, span{from, from + rapid.Int64Range(1, 40).Draw(t, "length")*second/2})
		}
		g.hours = &hours{zone: time.UTC, always: true, blackouts: merge(b)}
	}
	return g
}

// TestGrid checks what windows promise: each is one of its era and in it, has
// open time, follows the one before without leaving out an open moment, and
// can be skipped to and counted.
func TestGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t)
		from := rapid.Int64Range(0, 400*second).Draw(t, "from")
		all, next := g.windows(from, 40)
		for i, w := range all {
			e, ends := g.era(w.Start)
			if w.Size != e.Size || w.Start%e.Size != 0 || w.Start < e.Starts || w.Start+w.Size > ends || w.Max < 1 {
				t.Fatalf("window %+v in era %+v until %d", w, e, ends)
			}
			follower := next
			if i+1 < len(all) {
				follower = all[i+1].Start
			}
			if follower < w.Start+w.Size {
				t.Fatalf("window %+v reaches into the next, at %d", w, follower)
			}
			// What lies between is closed, or in a window that an era cuts off
			// or has no room for.
			for at := w.Start + w.Size; at < min(follower, w.Start+100*second); at += second / 2 {
				e, ends := g.era(at)
				start := at / e.Size * e.Size
				if opens, _, _ := g.hours.next(at); opens == at && start+e.Size <= ends && g.capacity(e.Size) > 0 {
					t.Fatalf("moment %d is open, between windows at %d and %d", at, w.Start, follower)
				}
			}
			if got := g.skip(all[0].Start, i); got != w.Start {
				t.Fatalf("window %d begins at %d, skip says %d", i, w.Start, got)
			}
			if got := g.distance(all[0].Start, w.Start); got != i {
				t.Fatalf("window %d is at distance %d", i, got)
			}
			checkMoments(t, &w)
		}
		if got := g.skip(all[0].Start, 40); got != next {
			t.Fatalf("after 40 windows comes %d, skip says %d", next, got)
		}
	})
}

// checkMoments checks that moments are open and not too early.
func checkMoments(t *rapid.T, w *Window) {
	open := w.Open
	if open == nil {
		open = []int64{w.Start, w.Start + w.Size}
	}
	for i := 0; i < len(open); i += 2 {
		if open[i] >= open[i+1] || open[i] < w.Start || open[i+1] > w.Start+w.Size || i > 0 && open[i] <= open[i-1] {
			t.Fatalf("window %+v", w)
		}
	}
	last := open[len(open)-1]
	earliest := w.Start + rapid.Int64Range(0, last-w.Start-1).Draw(t, "earliest")
	for _, u := range []float64{0, rand.Float64(), 0.9999999999999999} {
		m := w.Moment(earliest, u)
		in := false
		for i := 0; i < len(open); i += 2 {
			in = in || m >= open[i] && m < open[i+1]
		}
		if !in || m < earliest {
			t.Fatalf("%+v from %d at %v: %d", w, earliest, u, m)
		}
	}
}

func TestNextEras(t *testing.T) {
	four, ten := 4*second, 10*second
	eras := []Era{{0, four}}
	for _, step := range []struct {
		used []Window
		now  int64
		size int64
		want []Era
	}{
		{nil, 7, ten, []Era{{0, ten}}}, // nothing is scheduled: as if it had always been so
		{[]Window{{Start: 50 * second, Size: ten}}, 30 * second, four, []Era{{0, ten}, {28 * second, four}, {50 * second, ten}, {60 * second, four}}},
		// What is over is forgotten, and the last of its size stays until there are no others.
		{[]Window{{Start: 50 * second, Size: ten}, {Start: 60 * second, Size: four}}, 55 * second, ten, []Era{{0, ten}, {60 * second, four}, {70 * second, ten}}},
		{[]Window{{Start: 60 * second, Size: four}}, 65 * second, four, []Era{{0, four}}},
	} {
		if eras = NextEras(eras, step.used, step.now, step.size); !slices.Equal(eras, step.want) {
			t.Fatalf("%+v: got %v", step, eras)
		}
	}
	// Many stretches between windows that have events.
	var used []Window
	for i := range int64(10_000) {
		used = append(used, Window{Start: i * i * four, Size: four})
	}
	if eras := NextEras([]Era{{0, four}}, used, 0, ten); len(eras) < maxEras || len(eras) > maxEras+2 || eras[1].Size != ten {
		t.Errorf("%d eras", len(eras))
	}
}

// TestFullness compares it with a map of seconds.
func TestFullness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fullness
		full := map[int64]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			from := rapid.Int64Range(0, 60).Draw(t, "from")
			to := from + rapid.Int64Range(0, 10).Draw(t, "length")
			f.add(from, to)
			for i := from; i < to; i++ {
				full[i] = true
			}
		}
		for i := int64(0); i < 80; i++ {
			want := i
			for full[want] {
				want++
			}
			if got := f.skip(i); got != want {
				t.Fatalf("skip(%d) is %d, want %d in %v", i, got, want, f.spans)
			}
		}
	})
}

// TestMatch compares it with trying every window for each event.
func TestMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var windows []Window
		for i := range rapid.IntRange(0, 12).Draw(t, "windows") {
			windows = append(windows, Window{Start: int64(i) * 4, Max: 3, Used: rapid.IntRange(0, 3).Draw(t, "used")})
		}
		var searches []Search
		for range rapid.IntRange(0, 40).Draw(t, "searches") {
			from := rapid.Int64Range(0, 50).Draw(t, "from")
			searches = append(searches, Search{From: from, Until: from + rapid.Int64Range(0, 50).Draw(t, "until")})
		}
		slices.SortFunc(searches, func(a, b Search) int { return int(a.From - b.From) })
		limit := rapid.Int64Range(0, 60).Draw(t, "limit")
		naive := slices.Clone(windows)
		got := Match(searches, windows, func(int) int64 { return limit })
		for i, s := range searches {
			want := -1
			for j, w := range naive {
				if w.Start >= s.From && w.Used < w.Max {
					if w.Start < min(s.Until, limit) {
						want = j
						naive[j].Used++
					}
					break
				}
			}
			if got[i] != want {
				t.Fatalf("search %d %+v got window %d, want %d", i, s, got[i], want)
			}
		}
		if !slices.EqualFunc(windows, naive, func(a, b Window) bool { return a.Used == b.Used }) {
			t.Fatalf("counted %v, want %v", windows, naive)
		}
	})
}
