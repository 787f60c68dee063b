package bucket

const token = 1000 // thousandths

// Grant returns what a take up to want asks for where there is room for so much:
// all of it, or else whole tokens; or if there are none, what it would have been
// content with.
func Grant(want, room int64) int64 {
	if room >= want {
		return want
	}
	if whole := room - room%token; whole > 0 {
		return whole
	}
	return min(want, token)
}
