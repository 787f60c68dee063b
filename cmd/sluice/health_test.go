package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/metrics"
)

// Each health line has what was decided since the one before.
func TestHealthLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := &stack{registry: prometheus.NewRegistry()}
		takes := metrics.NewTakes()
		s.registry.MustRegister(takes)
		log := slog.New(slog.NewJSONHandler(&text, nil))
		s.logHealth(0, log)
		s.logHealth(time.Minute, log)
		demand := sluice.Demand{Key: sluice.Key{Entity: "alice", Limit: "rpm"}, Limit: sluice.Per(10, time.Minute)}
		for _, allowed := range []bool{true, true, false} {
			takes.Decided(&sluice.Take{Demands: []sluice.Demand{demand}, Tier: "refused"},
				&sluice.Decision{Allowed: allowed, Results: make([]sluice.Result, 1)}, nil, time.Millisecond)
		}
		time.Sleep(2*time.Minute + time.Second)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(text.String()) {
			var l struct {
				Msg              string
				Allowed, Refused int
				Memory           int64
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Msg != "health" || l.Memory <= 0 {
				t.Fatalf("%s: %v", line, err)
			}
			got = append(got, strings.Repeat("+", l.Allowed)+strings.Repeat("-", l.Refused))
		}
		if strings.Join(got, ", ") != "++-, " {
			t.Errorf("lines say %q", got)
		}
	})
}

// A real server posts what it logs about a bucket near its limit.
func TestAlarmsReachAWebhook(t *testing.T) {
	posts := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Webhook-Signature") == "" {
			t.Errorf("%v, signature %q", err, r.Header.Get("Webhook-Signature"))
		}
		posts <- string(body)
	}))
	defer hook.Close()
	p := begin(t, "serve", "--catalog", filepath.Join(t.TempDir(), "sluice.db"),
		"--alarm-webhook", hook.URL, "--alarm-private", "--alarm-secret", "0123456789abcdef")
	if _, err := p.ask(t).Take(t.Context(), client.Take{Entity: "alice-and-bob", Resource: "api", Cost: sluice.Tokens(15)}); err != nil {
		t.Fatal(err)
	}
	got := <-posts
	if !strings.Contains(got, `"msg":"bucket near its limit"`) || !strings.Contains(got, `"alarm":"warning"`) || strings.Contains(got, "alice-and") {
		t.Errorf("posted %s", got)
	}
}
