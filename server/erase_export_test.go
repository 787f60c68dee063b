package server

import "context"

// EraseFor has requests that remove much go on for as long as a context says,
// until undo.
func EraseFor(limit func(context.Context) (context.Context, context.CancelFunc)) (undo func()) {
	before := eraseFor
	eraseFor = limit
	return func() { eraseFor = before }
}
