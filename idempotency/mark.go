package idempotency

import "context"

// mark is what a handler says of its run beside its answer.
type mark uint32

const (
	unmarked mark = iota
	markedUnknown
	markedNotRun
)

type runKey struct{}

// MarkUnknown says that nobody knows whether the request with this context took
// effect, as when a proxy has sent it and got no answer. What the handler
// answers goes to the client, with the header Idempotent-Outcome, and is not
// stored. A repeat is treated as after a crash: see [Route.OnCrash]. Outside of
// [Keeper.Handler] it does nothing.
func MarkUnknown(ctx context.Context) { setMark(ctx, markedUnknown) }

// MarkNotRun says that the request with this context certainly had no effect,
// as when a proxy could not connect. What the handler answers goes to the
// client and is not stored, whatever its status, so that a repeat runs. Outside
// of [Keeper.Handler] it does nothing.
func MarkNotRun(ctx context.Context) { setMark(ctx, markedNotRun) }

func setMark(ctx context.Context, m mark) {
	if u, ok := ctx.Value(runKey{}).(*run); ok {
		u.mark.Store(uint32(m))
	}
}
