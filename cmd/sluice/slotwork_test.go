package main

import (
	"strings"
	"testing"

	"github.com/sluice-go/sluice/schedule"
)

// TestSlotsWork runs a command for three events, one of which fails.
func TestSlotsWork(t *testing.T) {
	s := openServer(t)
	s.ok(t, "slots", "plan", "set", "mail", "--window", "1ms")
	for event, payload := range map[string]string{"a": `{"to":"alice"}`, "b": `{"to":"bob"}`, "c": `{"to":"nobody"}`} {
		s.ok(t, "slots", "assign", event, "--plan", "mail", "--payload", payload)
	}
	s.clock.Advance(schedule.DefaultWindowSize)
	if got := s.sluice(t, "", "slots", "work", "mail", "--once", "--", "./no-such-command"); got.code != 2 || !strings.Contains(got.stderr, "no-such-command") {
		t.Errorf("a command that is not there, which would fail all: %+v", got)
	}
	printed := s.ok(t, "slots", "work", "mail", "--once", "--concurrency", "2", "--", "sh", "-c",
		`read payload; echo "$SLUICE_EVENT $SLUICE_FENCE $SLUICE_ATTEMPT $payload"; case "$payload" in *nobody*) echo no such address >&2; exit 1;; esac`)
	for _, want := range []string{`a 1 1 {"to":"alice"}`, `b 1 1 {"to":"bob"}`, "a: done", "b: done"} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
	if status := s.ok(t, "slots", "status", "a"); !strings.Contains(status, "done") {
		t.Errorf("got\n%s", status)
	}
	if status := s.ok(t, "slots", "status", "c"); !strings.Contains(status, "waiting") {
		t.Errorf("got\n%s", status)
	}
	if log := s.ok(t, "slots", "audit", "--event", "c"); !strings.Contains(log, "exit status 1: no such address") {
		t.Errorf("got\n%s", log)
	}
}
