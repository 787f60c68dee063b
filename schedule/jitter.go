package schedule

// Moment is the moment at fraction u, from 0 to below 1, of the time in which
// w is open and that is not before earliest. If u is uniform, so is it.
func (w *Window) Moment(earliest int64, u float64) int64 {
	if w.Open == nil {
		from := max(w.Start, earliest)
		return at(from, w.Start+w.Size-from, u)
	}
	var total int64
	for i := 0; i < len(w.Open); i += 2 {
		total += max(w.Open[i+1]-max(w.Open[i], earliest), 0)
	}
	left := at(0, total, u)
	for i := 0; i < len(w.Open); i += 2 {
		from := max(w.Open[i], earliest)
		if length := w.Open[i+1] - from; length > left {
			return from + left
		} else if length > 0 {
			left -= length
		}
	}
	return earliest // nothing is open after it; the caller asked for the wrong window
}

// share is how much of the time in which w is open, and that is not before
// earliest, is before end.
func (w *Window) share(earliest, end int64) float64 {
	open := w.Open
	if open == nil {
		open = []int64{w.Start, w.Start + w.Size}
	}
	var before, total int64
	for i := 0; i < len(open); i += 2 {
		from := max(open[i], earliest)
		total += max(open[i+1]-from, 0)
		before += max(min(open[i+1], end)-from, 0)
	}
	return float64(before) / float64(max(total, 1))
}

// at is from plus the fraction u of length, and below its end.
func at(from, length int64, u float64) int64 {
	return from + max(min(int64(u*float64(length)), length-1), 0)
}
