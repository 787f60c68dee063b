package schedule

import "sort"

// Match gives each search, in order of their From, the first of the windows
// with room that suits it, and counts it in the window's Used. The windows
// are in order of their start. It answers the index of each one's window, or
// -1. until says for each search before where its window must begin, besides
// its own Until: where the windows are not all there, it must not go on to
// those behind. A store calls it while nobody else can touch the windows.
func Match(searches []Search, windows []Window, until func(i int) int64) []int {
	placed := make([]int, len(searches))
	// full[i] leads towards the first window at or after i with room.
	full := make([]int, len(windows)+1)
	for i := range full {
		full[i] = i
	}
	next := func(i int) int {
		for full[i] != i {
			full[i] = full[full[i]]
			i = full[i]
		}
		return i
	}
	for n := range searches {
		s := &searches[n]
		i := sort.Search(len(windows), func(i int) bool { return windows[i].Start >= s.From })
		for i = next(i); i < len(windows) && windows[i].Used >= windows[i].Max; i = next(i) {
			full[i] = i + 1
		}
		placed[n] = -1
		if i < len(windows) && windows[i].Start < min(s.Until, until(n)) {
			placed[n] = i
			windows[i].Used++
		}
	}
	return placed
}
