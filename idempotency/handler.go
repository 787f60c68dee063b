package idempotency

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sluice-go/sluice"
)

// Handler runs next once for each key. routes says how a request is handled,
// or nil if keys mean nothing there; it is only asked about POST, PUT, PATCH
// and DELETE. Whatever limits rates or authenticates stands in front.
//
// A run has a context of its own, which does not end when the client goes. It
// ends, with a cause, after the route's MaxRun and when the claim was lost.
func (k *Keeper) Handler(routes func(*http.Request) *Route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		default:
			next.ServeHTTP(w, r)
			return
		}
		if route := routes(r); route != nil {
			k.serve(w, r, route, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (k *Keeper) serve(w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	if !route.prepared {
		k.log.Error("idempotency: a route was not prepared", "route", route.Name)
		k.refuse(w, k.Problem(CodeInternal, "The route was not prepared."))
		return
	}
	key, ok, err := KeyOf(r.Header)
	switch {
	case err != nil:
		k.refuse(w, k.Problem(CodeInvalid, "Idempotency-Key: "+err.Error()+"."))
		return
	case !ok && route.Required:
		k.refuse(w, k.Problem(CodeMissing, "This operation wants an Idempotency-Key, so that it can safely be sent again: draw a new one, such as a UUID, for each operation."))
		return
	case !ok:
		next.ServeHTTP(w, r)
		return
	}
	if route.Identified != nil && !route.Identified(r) {
		k.refuse(w, k.Problem(CodeIdentity, "This operation has to know whose Idempotency-Key it is. Nothing was done. Send the credential or the header that tells who you are."))
		return
	}
	body, err := readPayload(r, route.MaxBuffer)
	if err != nil {
		k.refuseBody(w, err)
		return
	}
	claim := Claim{
		Scope:       Scope{Tenant: route.Tenant(r), Method: r.Method, Route: route.Name, Key: key},
		Token:       NewToken(),
		Fingerprint: body.fingerprint(r, route),
		Life:        route.Life, TTL: route.TTL, TakeOver: route.OnCrash == RunAgain,
	}
	run := &run{keeper: k, route: route, claim: &claim, payload: body}
	// A claim that is broken off because its client goes might have been made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storePatience)
	answer, err := k.Claim(ctx, claim)
	cancel()
	switch {
	case err != nil:
		run.withoutStore(w, r, next, err)
	case answer.Verdict.Held():
		run.do(w, r, next)
	default:
		run.answer(w, r, &answer)
	}
}

func (k *Keeper) refuseBody(w http.ResponseWriter, err error) {
	p := k.Problem(CodeBody, "The request's body could not be read to its end. Nothing was done.")
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.Status = http.StatusRequestEntityTooLarge
		p.Detail = fmt.Sprintf("The request's body is larger than %d bytes. Nothing was done.", tooLarge.Limit)
	}
	k.refuse(w, p)
}

// answer answers a request that does not run.
func (u *run) answer(w http.ResponseWriter, r *http.Request, a *Answer) {
	k := u.keeper
	switch a.Verdict {
	case Busy:
		p := k.Problem(CodeRunning, "The first request with this key is still running. Send it again later, with the same key.")
		p.RetryAfter = retryAfter(a)
		k.refuse(w, p)
	case Unknown:
		w.Header().Set(OutcomeHeader, "unknown")
		k.refuse(w, k.Problem(CodeUnknown, "The first request with this key was interrupted, and nobody knows how far it got. Look whether it took effect before you send it with another key, or ask for it to be settled."))
	case Mismatch:
		k.refuseReuse(w)
	case Finished:
		u.replay(w, r, a)
	}
}

func (k *Keeper) refuseReuse(w http.ResponseWriter) {
	k.refuse(w, k.Problem(CodeReused, "This key was used for a different request: another path, query, content type, body or credential. Draw a new key for each operation, and repeat it unchanged."))
}

// replay answers with what is stored.
func (u *run) replay(w http.ResponseWriter, r *http.Request, a *Answer) {
	k := u.keeper
	stored, err := DecodeResponse(a.Record.Result)
	if err != nil {
		k.log.Error("idempotency: a stored response cannot be read", "route", u.route.Name, "error", err)
		stored.Lost = Unreadable
	} else if stored.Lost != Unreadable {
		same, err := u.payload.matches(stored.Upload)
		if err != nil {
			k.refuseBody(w, err)
			return
		}
		if !same {
			k.seen.count(u.claim.Scope.Tenant, func(s *Stats) { s.Mismatches++ })
			k.refuseReuse(w)
			return
		}
	}
	k.countReplay(a, &stored)
	if u.route.OnReplay != nil {
		u.route.OnReplay(r)
	}
	if stored.Lost != "" {
		w.Header().Set(ReplayHeader, "true")
		k.refuse(w, k.Problem(CodeNotKept, fmt.Sprintf("The first request with this key was completed with status %d. Its response cannot be shown again: %s.", stored.Status, stored.Lost)))
		return
	}
	writeStored(w, &stored)
}

func writeStored(w http.ResponseWriter, stored *Response) {
	h := w.Header()
	for name, values := range stored.Header {
		h[name] = values
	}
	h.Set(ReplayHeader, "true")
	if stored.Status != http.StatusNoContent && stored.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(stored.Body)))
	}
	w.WriteHeader(stored.Status)
	w.Write(stored.Body) //nolint:errcheck // the client may be gone
}

// withoutStore handles a request whose key could not be claimed.
func (u *run) withoutStore(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	k := u.keeper
	var field *sluice.FieldError
	switch {
	case errors.As(err, &field):
		k.log.Error("idempotency: a claim is not valid", "route", u.route.Name, "error", err)
		k.refuse(w, k.Problem(CodeInternal, "The request's scope is not valid."))
	case u.route.OnUnavailable == Refuse:
		k.log.Error("idempotency: the store is away, a request is refused", "route", u.route.Name, "error", err)
		if inDoubt(err) { // a claim that was made after all would look like a crash
			k.settleLater(u.claim.Scope, u.claim.Token, nil, 0)
		}
		p := k.Problem(CodeUnavailable, "Whether this request was seen before cannot be looked up at the moment. Nothing was done. Send it again later, with the same key.")
		p.RetryAfter = 1
		k.refuse(w, p)
	default:
		k.log.Error("idempotency: the store is away, a request runs without it", "route", u.route.Name, "error", err)
		w.Header().Set(StoreHeader, "unavailable")
		if inDoubt(err) {
			u.do(w, r, next) // the claim may have been made, so it is ended as well
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), u.route.MaxRun)
		defer cancel()
		r2 := r.WithContext(ctx)
		r2.Body = u.payload.body(r)
		next.ServeHTTP(w, r2)
	}
}

// inDoubt reports whether a call that failed may have taken effect.
func inDoubt(err error) bool {
	return errors.Is(err, sluice.ErrUnknown) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
