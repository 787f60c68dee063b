package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/server"
)

// TestSanctions lists a ban and lifts it, in its own namespace only, and lists the
// nodes on which it holds.
func TestSanctions(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	guard := must(abuse.New(abuse.Config{Namespace: "default", Log: quiet}))(t)
	guard.Seen(&policy.Abuse{Ban: &policy.Ban{Refusals: 1, Within: time.Minute, For: time.Hour}}, "key:noisy", true)
	store := must(memory.Open(memory.Config{Log: quiet}))(t)
	defer store.Close()
	api := httptest.NewServer(must(server.Handler(server.Config{
		Limiter: sluice.New(store), Limits: map[string]sluice.Limit{"own": sluice.Per(1, time.Second)}, Sanctions: guard,
		Nodes:  func() client.NodeList { return client.NodeList{Nodes: []client.Presence{{Name: "here"}}} },
		Access: server.Access{Open: true}, Log: quiet,
	}))(t))
	defer api.Close()
	checked := &http.Client{Transport: checking{t, http.DefaultTransport}}
	own := must(client.New(client.Config{URL: api.URL, HTTPClient: checked}))(t)
	other := must(client.New(client.Config{URL: api.URL, Namespace: "elsewhere"}))(t)
	if all := must(other.Sanctions(t.Context()))(t); len(all.Sanctions) != 0 {
		t.Errorf("%+v", all)
	}
	if must(other.LiftSanction(t.Context(), "key:noisy"))(t) {
		t.Error("lifted from another namespace")
	}
	all := must(own.Sanctions(t.Context()))(t)
	if len(all.Sanctions) != 1 || all.Sanctions[0].Entity != "key:noisy" || all.Sanctions[0].Kind != "ban" {
		t.Errorf("%+v", all)
	}
	for _, want := range []bool{true, false} {
		if lifted := must(own.LiftSanction(t.Context(), "key:noisy"))(t); lifted != want || guard.Banned("key:noisy") != 0 {
			t.Errorf("lifted %t, want %t", lifted, want)
		}
	}
	if nodes := must(own.Nodes(t.Context()))(t); len(nodes.Nodes) != 1 || nodes.Nodes[0].Name != "here" {
		t.Errorf("%+v", nodes)
	}
}
