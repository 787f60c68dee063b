package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

// TestServeCallsTargets runs a server, is called by it, kills it while it calls,
// and settles what is unknown, all by command.
func TestServeCallsTargets(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{}
	began, release := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		event := r.Header.Get("Webhook-Id")
		mu.Lock()
		calls[event]++
		first := calls[event] == 1
		mu.Unlock()
		if r.Header.Get("Webhook-Signature") == "" || r.Header.Get("X-Token") != "abc" {
			t.Errorf("%s came with %v", event, r.Header)
		}
		if event == "cut" && first {
			close(began)
			<-release
		}
	}))
	defer receiver.Close()
	defer close(release)
	dir := t.TempDir()
	key := writeFile(t, dir, "seal.key", strings.Repeat("k", 40)+"\n")
	signs := writeFile(t, dir, "webhook.secret", "whsec_c2VjcmV0\n")
	serve := func() *process {
		p := begin(t, "serve", "--catalog", dir+"/sluice.db", "--store", "memory", "--seal-key", "@"+key, "--target-allow", "127.0.0.1")
		t.Setenv("SLUICE_SERVER", p.url())
		return p
	}
	p := serve()
	s := &testServer{}
	s.ok(t, "slots", "plan", "set", "mail", "--window", "1ms", "--target", receiver.URL, "--target-secret", "@"+signs, "--target-header", "X-Token: abc", "--target-timeout", "1m")
	shown := s.ok(t, "slots", "plan", "set", "mail", "--target-secret", "another", "--target-keep-secret", "1h", "--target-rate", "1/s")
	for _, want := range []string{"POST " + receiver.URL, "1/s burst 1", "X-Token: (sealed)", "(sealed) until"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	status := func(event string, want schedule.State) string {
		var text string
		eventually(t, event+" is "+want.String(), func() bool {
			text = s.ok(t, "slots", "status", event)
			return strings.Contains(text, want.String())
		})
		return text
	}
	s.ok(t, "slots", "assign", "fine", "--plan", "mail", "--payload", "1")
	status("fine", schedule.Done)
	s.ok(t, "slots", "assign", "cut", "--plan", "mail")
	<-began
	p.kill(t)
	p = serve()
	if text := s.ok(t, "slots", "status", "cut"); !strings.Contains(text, "running") {
		t.Errorf("it may be under way, and is\n%s", text)
	}
	s.ok(t, "slots", "assign", "later", "--plan", "mail")
	status("later", schedule.Done)
	if err := p.ask(t).CompleteSlot(t.Context(), "cut", 1, ""); err != nil {
		t.Error(err)
	}
	status("cut", schedule.Done)
	mu.Lock()
	if calls["fine"] != 1 || calls["cut"] != 1 || calls["later"] != 1 {
		t.Errorf("called %v", calls)
	}
	mu.Unlock()
	p.signal(t, syscall.SIGTERM)
	p.wait(t)
	if log := p.stderr.String(); strings.Contains(log, "near its limit") {
		t.Errorf("going at the target's pace is nothing to be alarmed at:\n%s", log)
	}
	stored, err := os.ReadFile(dir + "/sluice.db")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"another", "c2VjcmV0", "abc\""} {
		if strings.Contains(string(stored), secret) {
			t.Errorf("the file has %q", secret)
		}
	}
}

func TestTargetFlags(t *testing.T) {
	f := targetFlags{secret: "new", keep: period(time.Hour)}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	to := &schedule.Target{Secrets: []schedule.TargetSecret{{Secret: "a"}, {Secret: "b", Until: now.Add(time.Minute)}, {Secret: "c", Until: now.Add(-time.Minute)}}}
	if err := f.replaceSecret(to, now); err != nil {
		t.Fatal(err)
	}
	if s := to.Secrets; len(s) != 3 || s[0] != (schedule.TargetSecret{Secret: "new"}) || !s[1].Until.Equal(now.Add(time.Hour)) || s[2].Secret != "b" || !s[2].Until.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", to.Secrets)
	}
	s := openServer(t)
	for args, want := range map[string]string{
		"--target '' --target-rate 5/s":                       "removes the target",
		"--target https://a --target-success fine":            "statuses",
		"--target https://a --target-header x":                "Name: value",
		"--target https://a --target-rate fast":               "fast",
		"--target https://a --target-secret @/does/not/exist": "no such file",
	} {
		words := append([]string{"slots", "plan", "set", "p"}, strings.Fields(strings.ReplaceAll(args, "''", "\x00"))...)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", "")
		}
		if got := s.sluice(t, "", words...); got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d %s, want %q", args, got.code, got.stderr, want)
		}
	}
}
