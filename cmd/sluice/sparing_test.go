package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/redis/redistest"
)

func TestSparingWritesOnceAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(newSparing(slog.NewTextHandler(&text, nil))).With("node", "a")
		away := fmt.Errorf("list: %w", sluice.ErrUnavailable)
		written := func(what string, lines int, has string) {
			t.Helper()
			if got := strings.Count(text.String(), "\n"); got != lines || !strings.Contains(text.String(), has) {
				t.Errorf("%s: %d lines, want %d with %q\n%s", what, got, lines, has, &text)
			}
			text.Reset()
		}
		fail := func() {
			for range 200 {
				log.Error("request failed", "error", away)
				log.Warn("lease not settled", "error", sluice.ErrUnknown)
			}
		}
		fail()
		written("each once", 2, "request failed")
		log.Error("store state changed", "to", "open", "error", away)
		fail()
		written("once in the next state", 3, "left_out=199")
		time.Sleep(spareFor)
		fail()
		written("a minute later", 2, "left_out=199")
		for range 3 {
			log.Error("request failed", "error", errors.New("something else"))
			log.Error("request failed")
			log.Error("store state changed", "to", "open", "error", away)
		}
		written("all that is not about requests without a store", 9, "something else")
	})
}

// A node that loses its store logs the change, and not every request.
func TestOutagesAreNotLoggedByRequest(t *testing.T) {
	store := redistest.Start(t)
	p := begin(t, "serve", "--store", store.URL(), "--catalog", t.TempDir()+"/sluice.db")
	c := p.ask(t)
	store.Kill()
	for range 200 {
		c.Take(t.Context(), client.Take{Entity: "alice", Resource: "api"})     //nolint:errcheck // most are refused
		c.Status(t.Context(), client.Subject{Entity: "alice"})                 //nolint:errcheck // the log matters
		c.Buckets(t.Context(), client.BucketQuery{})                           //nolint:errcheck // which fails
		c.Reset(t.Context(), client.Subject{Entity: "alice", Resource: "api"}) //nolint:errcheck // which fails
	}
	p.signal(t, syscall.SIGTERM)
	<-p.rest
	p.command.Wait() //nolint:errcheck // the store is away
	p.ended = true
	changes, lines := 0, p.logged(t)
	for _, l := range lines {
		if l.Msg == "store state changed" {
			changes++
		}
	}
	// In each state, at most one line of each kind: that requests fail, that
	// what is held is returned later.
	if changes == 0 || len(lines) > 3+3*(changes+1) {
		t.Errorf("%d lines, %d of them about changes of state:\n%s", len(lines), changes, &p.stderr)
	}
}
