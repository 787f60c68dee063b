package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/target"
	"github.com/sluice-go/sluice/server"
)

// running gives a server targets, and runs them.
func running(t *testing.T, allow ...string) func(*server.Config) {
	return func(c *server.Config) {
		keys := must(target.NewKeys(strings.Repeat("k", target.MinKey)))(t)
		buckets := must(memory.Open(memory.Config{}))(t) // whose time passes
		closes(t, buckets)
		c.Targets = must(target.New(target.Config{Slots: c.Slots, Limiter: sluice.New(buckets), Keys: keys, Allow: allow, Log: c.Log}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		ended.Go(func() { c.Targets.Run(ctx) })
		t.Cleanup(func() { cancel(); ended.Wait() })
	}
}

func TestTargets(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		event := r.Header.Get("Webhook-Id")
		_, again := got[event]
		got[event] = r.Header.Get("Authorization") + " " + string(body)
		mu.Unlock()
		if event == "drops" && !again {
			panic(http.ErrAbortHandler)
		}
	}))
	defer receiver.Close()
	s := stage(t, running(t, "127.0.0.1"))
	c, ctx := s.admin(t), t.Context()
	plan := must(c.SetSlotPlan(ctx, schedule.Plan{Name: "mail", WindowSize: time.Millisecond, Target: &schedule.Target{
		URL: receiver.URL, Headers: map[string]string{"Authorization": "Bearer t"}, Secrets: []schedule.TargetSecret{{Secret: "shh"}},
	}}))(t)
	if shown := must(json.Marshal(plan))(t); strings.Contains(string(shown), "Bearer") || strings.Contains(string(shown), "shh") || plan.Target.Method != "POST" {
		t.Errorf("shown is %s", shown)
	}
	plan.MaxPerWindow = 50
	plan = must(c.SetSlotPlan(ctx, plan))(t) // with what is sealed
	for _, event := range []string{"fine", "drops"} {
		must(c.AssignSlot(ctx, schedule.Request{Event: event, Plan: "mail", Payload: json.RawMessage(`7`)}))(t)
	}
	wait := func(event string, want schedule.State) schedule.Slot {
		for {
			if slot := must(c.Slot(ctx, event))(t); slot.State == want {
				return slot
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	wait("fine", schedule.Done)
	wait("drops", schedule.Unknown)
	if page := must(c.UnknownSlots(ctx, "mail", client.Page{}))(t); len(page.Slots) != 1 || page.Slots[0].Event != "drops" {
		t.Errorf("%+v", page)
	}
	must(c.RequeueSlot(ctx, "drops", "it did not arrive"))(t)
	wait("drops", schedule.Done)
	mu.Lock()
	defer mu.Unlock()
	if got["fine"] != "Bearer t 7" || got["drops"] != "Bearer t 7" {
		t.Errorf("received %q", got)
	}
	plan.Target.URL = "https://example.com/"
	if _, err := c.SetSlotPlan(ctx, plan); err == nil || !strings.Contains(err.Error(), "sealed for another plan or host") {
		t.Errorf("secrets went elsewhere: %v", err)
	}
	for body, want := range map[string]string{
		`{"name":"a","target":{"url":"http://10.0.0.1/"}}`:                    "--target-allow",
		`{"name":"a","target":{"url":"https://example.com","methods":"GET"}}`: "methods",
		`{"name":"a","target":{"url":"https://example.com","timeout":"5"}}`:   "duration",
		`{"name":"a","target":{"url":"https://example.com","rate":"fast"}}`:   "fast",
		`{"name":"a","target":{"url":"https://example.com","method":"GET"}}`:  "POST, PUT",
	} {
		status, answer := post(t, s.url+"/v1/slots/plans", body)
		if status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want 400 with %q", body, status, answer, want)
		}
	}
}

// TestWithoutTargets: a server that calls none takes no plan that has one.
func TestWithoutTargets(t *testing.T) {
	c := stage(t, nil).admin(t)
	if _, err := c.SetSlotPlan(t.Context(), schedule.Plan{Target: &schedule.Target{URL: "https://example.com/"}}); err == nil || !strings.Contains(err.Error(), "calls no targets") {
		t.Errorf("%v", err)
	}
}

func post(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Content-Type", "application/json")
	response := must(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	return response.StatusCode, string(must(io.ReadAll(response.Body))(t))
}
