package idempotency

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// run is one request on its way through its handler.
type run struct {
	keeper  *Keeper
	route   *Route
	claim   *Claim
	payload *payload

	beat     *beat
	recorder *recorder
	ended    bool // the claim is, or will be without us
	mark     atomic.Uint32
}

// do runs the handler under the claim and stores what it answers.
func (u *run) do(w http.ResponseWriter, r *http.Request, next http.Handler) {
	k, route := u.keeper, u.route
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), runKey{}, u))
	defer cancel(nil)
	u.beat = k.beats(u.claim.Scope, u.claim.Token, route.Life, route.MaxRun, cancel)
	defer u.beat.stop()

	u.recorder = newRecorder(w, route.MaxBody, func(status int, why Loss) {
		// From here on it is like any stream: over when its client goes.
		context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
		if !route.stores(status) && why != Hijacked {
			return
		}
		u.end(r.Context(), &Response{Status: status, Lost: why}) //nolint:errcheck // logged there
	})
	returned := false
	defer func() {
		if !returned {
			u.broken(r.Context(), recover())
		}
	}()
	inner := r.WithContext(ctx)
	inner.Body = u.payload.body(r)
	next.ServeHTTP(u.recorder, inner)
	returned = true

	if u.recorder.status == 0 {
		u.recorder.WriteHeader(http.StatusOK)
	}
	var result error
	if !u.ended {
		switch m := mark(u.mark.Load()); {
		case m == markedUnknown:
			u.abandon(r.Context())
			u.recorder.sent.Set(OutcomeHeader, "unknown")
		case m == markedNotRun || !route.stores(u.recorder.status):
			result = u.release(r.Context())
		default:
			result = u.end(r.Context(), u.recorder.response(route))
		}
	}
	if errors.Is(result, ErrLost) && !u.recorder.passed && u.otherResult(w, r) {
		return
	}
	if result != nil && !errors.Is(result, ErrLost) && !u.recorder.passed {
		u.recorder.sent.Set(StoreHeader, "unavailable")
	}
	u.recorder.finish()
}

// end stores a response. What cannot be stored now is stored later.
func (u *run) end(ctx context.Context, r *Response) error {
	k := u.keeper
	u.beat.stop()
	u.ended = true
	r.Upload = u.payload.upload()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	err := k.finish(ctx, u.claim.Scope, u.claim.Token, Done, r, u.route.TTL)
	switch {
	case errors.Is(err, ErrLost):
		k.log.Warn("idempotency: a run ended after its claim was lost; its response is not stored", "route", u.route.Name)
	case err != nil:
		k.log.Error("idempotency: a response could not be stored; it is tried again", "route", u.route.Name, "error", err)
		k.settleLater(u.claim.Scope, u.claim.Token, r, u.route.TTL)
	}
	return err
}

func (u *run) release(ctx context.Context) error {
	k := u.keeper
	u.beat.stop()
	u.ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	err := k.Release(ctx, u.claim.Scope, u.claim.Token)
	if err != nil && !errors.Is(err, ErrLost) {
		k.log.Error("idempotency: a key could not be released; it is tried again", "route", u.route.Name, "error", err)
		k.settleLater(u.claim.Scope, u.claim.Token, nil, 0)
	}
	return err
}

// abandon leaves a run whose outcome nobody knows as a crash would. If its route
// wants to be told, it counts as crashed at once; if a repeat is to run, that
// has to wait until the claim lapses, because the work may still be going on.
func (u *run) abandon(ctx context.Context) {
	u.beat.stop()
	u.ended = true
	if u.route.OnCrash == OutcomeUnknown {
		u.keeper.lapse(ctx, u.claim.Scope, u.claim.Token)
	}
}

// lapse ends a claim as a crash would, without waiting for its life to end.
func (k *Keeper) lapse(ctx context.Context, s Scope, token Token) {
	k.log.Warn("idempotency: the outcome of a run is unknown", "tenant", s.Tenant, "method", s.Method, "route", s.Route)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	if err := k.store.Extend(ctx, s.ID(), token, 0); err != nil && !errors.Is(err, ErrLost) {
		k.log.Warn("idempotency: a claim could not be ended; it lapses by itself", "route", s.Route, "error", err)
	}
}

// broken handles a handler that panicked, or ended its goroutine, and panics
// again.
func (u *run) broken(ctx context.Context, reason any) {
	if !u.ended {
		switch {
		case reason == http.ErrAbortHandler && u.recorder.status != 0 && u.route.stores(u.recorder.status):
			// A proxy breaks off so when the rest of a response does not come.
			// The work was done: it must not run again.
			u.end(ctx, &Response{Status: u.recorder.status, Lost: Aborted}) //nolint:errcheck // logged there
		case u.route.OnCrash == OutcomeUnknown:
			u.abandon(ctx)
		default:
			u.release(ctx) //nolint:errcheck // logged there
		}
	}
	if reason != nil {
		panic(reason)
	}
}

// otherResult answers with the result of whoever took the claim over, so that
// all clients get the same. It reports false if there is none.
func (u *run) otherResult(w http.ResponseWriter, r *http.Request) bool {
	k := u.keeper
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storePatience)
	defer cancel()
	record, err := k.store.Lookup(ctx, u.claim.Scope.ID())
	if err != nil || record.Fingerprint != u.claim.Fingerprint {
		return false
	}
	switch {
	case record.State == Done:
		stored, err := DecodeResponse(record.Result)
		if err != nil || stored.Lost != "" {
			return false
		}
		writeStored(w, &stored)
		return true
	case record.State == Running && !record.Crashed:
		p := k.Problem(CodeRunning, "This request took so long that another one with the same key was let in, which is still running. Send it again later, with the same key.")
		p.RetryAfter = 1
		k.refuse(w, p)
		return true
	}
	return false
}
