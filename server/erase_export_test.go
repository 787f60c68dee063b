package server

import "time"

// EraseFor has requests that remove much go on for another time, until undo.
func EraseFor(d time.Duration) (undo func()) {
	before := eraseFor
	eraseFor = d
	return func() { eraseFor = before }
}
