package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

// held is a handler that waits in each run until it is let go.
type held struct {
	entered chan context.Context
	release chan string
}

func newHeld() *held { return &held{make(chan context.Context, 10), make(chan string)} }

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.entered <- r.Context()
	w.Write([]byte(<-h.release))
}

func TestARepeatOfARunningRequestIsToldToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newHeld()
		h := memoryKeeper(t).Handler(always(prepared(t, nil)), inner)
		var first *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { first = do(h, post("k", "x")) })
		<-inner.entered
		w := do(h, post("k", "x"))
		if p := wantCode(t, w, 409, idempotency.CodeRunning); p.RetryAfter != 1 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("retry after %d", p.RetryAfter)
		}
		time.Sleep(5 * time.Second)
		if w := do(h, post("k", "x")); w.Header().Get("Retry-After") != "5" {
			t.Errorf("retry after %s, want 5", w.Header().Get("Retry-After"))
		}
		wantCode(t, do(h, post("k", "y")), 422, idempotency.CodeReused)
		inner.release <- "done"
		wg.Wait()
		wantAnswer(t, first, 200, "done", false)
		wantAnswer(t, do(h, post("k", "x")), 200, "done", true)
	})
}

func TestALongRunKeepsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newHeld()
		h := memoryKeeper(t).Handler(always(prepared(t, nil)), inner)
		var wg sync.WaitGroup
		wg.Go(func() { wantAnswer(t, do(h, post("k", "x")), 200, "done", false) })
		<-inner.entered
		for range 20 {
			time.Sleep(2 * time.Minute) // each four lives of a claim long
			wantCode(t, do(h, post("k", "x")), 409, idempotency.CodeRunning)
		}
		inner.release <- "done"
		wg.Wait()
		wantAnswer(t, do(h, post("k", "x")), 200, "done", true)
	})
}

func TestARunThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newHeld()
		h := memoryKeeper(t).Handler(always(prepared(t, func(r *idempotency.Route) { r.MaxRun = 10 * time.Minute })), inner)
		var wg sync.WaitGroup
		var zombie *httptest.ResponseRecorder
		wg.Go(func() { zombie = do(h, post("k", "x")) })
		ctx := <-inner.entered
		time.Sleep(10*time.Minute + time.Second)
		if !errors.Is(context.Cause(ctx), idempotency.ErrTooLong) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		wantCode(t, do(h, post("k", "x")), 409, idempotency.CodeRunning) // its claim has not lapsed
		time.Sleep(30 * time.Second)
		wg.Go(func() { wantAnswer(t, do(h, post("k", "x")), 200, "second", false) })
		<-inner.entered
		inner.release <- "first" // of the one that hung: whoever waits longest gets it
		synctest.Wait()
		inner.release <- "second"
		wg.Wait()
		// It lost its claim: its client is told about the other run.
		wantCode(t, zombie, 409, idempotency.CodeRunning)
		wantAnswer(t, do(h, post("k", "x")), 200, "second", true)
	})
}

// crash makes the record of a run that nobody ends.
func crash(t *testing.T, k *idempotency.Keeper, h http.Handler, inner *held, key string) {
	t.Helper()
	// The handler's goroutine ends as in a crash, except that the claim stays.
	claimed := make(chan struct{})
	go func() {
		defer close(claimed)
		do(h, post(key, "x"))
	}()
	<-inner.entered
	record, _, err := k.Lookup(t.Context(), scope(key))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Forget(t.Context(), scope(key)); err != nil {
		t.Fatal(err)
	}
	a, err := k.Claim(t.Context(), idempotency.Claim{
		Scope: scope(key), Token: idempotency.NewToken(), Fingerprint: record.Fingerprint, Life: 30 * time.Second, TTL: 24 * time.Hour,
	})
	if err != nil || a.Verdict != idempotency.Claimed {
		t.Fatal(a.Verdict, err)
	}
	inner.release <- "from nowhere"
	<-claimed
}

func TestAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		inner := newHeld()
		k := memoryKeeper(t)
		careful := k.Handler(always(prepared(t, func(r *idempotency.Route) { r.OnCrash = idempotency.OutcomeUnknown })), inner)
		again := k.Handler(always(prepared(t, nil)), inner)

		crash(t, k, again, inner, "run")
		wantCode(t, do(again, post("run", "x")), 409, idempotency.CodeRunning)
		if err := k.Settle(ctx, scope("run"), nil); !errors.Is(err, idempotency.ErrNotCrashed) {
			t.Errorf("settle: %v", err)
		}
		time.Sleep(30 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { wantAnswer(t, do(again, post("run", "x")), 200, "second", false) })
		<-inner.entered
		inner.release <- "second"
		wg.Wait()
		wantAnswer(t, do(again, post("run", "x")), 200, "second", true)

		crash(t, k, careful, inner, "ask")
		time.Sleep(30 * time.Second)
		for range 3 {
			wantCode(t, do(careful, post("ask", "x")), 409, idempotency.CodeUnknown)
			time.Sleep(time.Hour)
		}
		wantCode(t, do(careful, post("ask", "y")), 422, idempotency.CodeReused)
		if err := k.Settle(ctx, scope("ask"), &idempotency.Response{Status: 201, Body: []byte("it had happened")}); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, do(careful, post("ask", "x")), 201, "it had happened", true)

		crash(t, k, careful, inner, "free")
		time.Sleep(30 * time.Second)
		wantCode(t, do(careful, post("free", "x")), 409, idempotency.CodeUnknown)
		if err := k.Settle(ctx, scope("free"), nil); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { wantAnswer(t, do(careful, post("free", "x")), 200, "at last", false) })
		<-inner.entered
		inner.release <- "at last"
		wg.Wait()
		if err := k.Settle(ctx, scope("none"), nil); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("settle: %v", err)
		}
	})
}

func TestAPanicReleasesTheKey(t *testing.T) {
	k := memoryKeeper(t)
	angry := true
	h := k.Handler(always(prepared(t, nil)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		if angry {
			panic("no")
		}
	}))
	func() {
		defer func() {
			if r := recover(); r != "no" {
				t.Errorf("recovered %v", r)
			}
		}()
		do(h, post("k", "x"))
	}()
	if _, _, err := k.Lookup(t.Context(), scope("k")); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("lookup: %v", err)
	}
	angry = false
	wantAnswer(t, do(h, post("k", "x")), 201, "", false)
}

// A handler that panics on a route that wants to know leaves an unknown outcome.
func TestAPanicLeavesTheOutcomeUnknown(t *testing.T) {
	k := memoryKeeper(t)
	runs := 0
	h := k.Handler(always(prepared(t, func(r *idempotency.Route) { r.OnCrash = idempotency.OutcomeUnknown })),
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			runs++
			panic("no")
		}))
	func() {
		defer func() { recover() }()
		do(h, post("k", "a"))
	}()
	w := do(h, post("k", "a"))
	wantCode(t, w, 409, idempotency.CodeUnknown)
	if got := w.Header().Get(idempotency.OutcomeHeader); got != "unknown" || runs != 1 {
		t.Errorf("%s: %q, %d runs", idempotency.OutcomeHeader, got, runs)
	}
}

// A proxy panics so when the rest of an upstream's response does not come.
func TestAResponseThatIsBrokenOffCountsAsDone(t *testing.T) {
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("half"))
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() {
			if r := recover(); r != http.ErrAbortHandler {
				t.Errorf("recovered %v", r)
			}
		}()
		do(h, post("k", "x"))
	}()
	if p := wantCode(t, do(h, post("k", "x")), 409, idempotency.CodeNotKept); !strings.Contains(p.Detail, "aborted") {
		t.Errorf("detail %q", p.Detail)
	}
}
