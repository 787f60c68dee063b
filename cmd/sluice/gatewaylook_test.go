package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// lookAt are the endpoints that the admin address of a gateway answers, with
// a question for each.
var lookAt = map[string]string{
	"GET /v1/status/{entity}":            "",
	"GET /v1/status/{entity}/{resource}": "",
	"GET /v1/buckets":                    "",
	"GET /v1/me":                         "",
	"GET /v1/nodes":                      "",
	"POST /v1/explain":                   `{"entity":"alice","resource":"api"}`,
	"POST /v1/explain/request":           `{"path":"/"}`,
	"GET /v1/replays":                    "",
	"GET /v1/replays/stats":              "",
	"POST /v1/replays/lookup":            "{}", // 400: there is no method
	"POST /v1/replays/forget":            "{}",
	"POST /v1/replays/settle":            "{}",
}

// A gateway answers on its admin address what a server does, but nothing that
// changes anything.
func TestGatewayIsLookedAt(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer api.Close()
	dir := t.TempDir()
	p := begin(t, "gateway", "--upstream", api.URL, "--admin-listen", "127.0.0.1:0", "--catalog", filepath.Join(dir, "sluice.db"))
	admin := "http://" + p.admin
	for range 3 {
		response, err := http.Get(p.url() + "/")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	s := openServer(t) // after which SLUICE_SERVER is that one
	for _, c := range []struct{ line, want string }{
		{"top --once", "17"},
		{"top --once --json", `"allowed": 3`},
		{"status 127.0.0.1", "100/minute burst 20"},
		{"nodes", "(this one)"},
		{"explain alice api", "a take would be allowed"},
		{"explain --path / --address 127.0.0.1", "100/minute burst 20"},
	} {
		got := s.sluice(t, "", append(strings.Fields(c.line), "--server", admin)...)
		if got.code != exitDone || !strings.Contains(got.stdout, c.want) {
			t.Errorf("%s: exit %d\n%s%s", c.line, got.code, got.stdout, got.stderr)
		}
	}
	if got := s.sluice(t, "", "take", "alice", "--server", admin); got.code != exitTrouble {
		t.Errorf("a take is answered: %+v", got)
	}
	for _, endpoint := range described(t, s) {
		method, path, _ := strings.Cut(endpoint, " ")
		if !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/openapi.") {
			continue
		}
		body, looks := lookAt[endpoint]
		status := ask(t, method, admin+regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "alice"), body)
		if refused := status == http.StatusNotFound || status == http.StatusMethodNotAllowed; refused == looks {
			t.Errorf("%s: status %d", endpoint, status)
		}
	}
	// A page of another site that a browser on this machine shows is kept out.
	r, err := http.NewRequestWithContext(t.Context(), "GET", admin+"/v1/buckets", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "elsewhere.example"
	if response, err := http.DefaultClient.Do(r); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("%+v, %v", response, err)
	}
	http.DefaultClient.CloseIdleConnections()
	p.signal(t, syscall.SIGTERM)
	p.wait(t)
	if !slices.Contains(strings.Fields(p.greeting), admin) {
		t.Errorf("it does not say how to look: %s", p.greeting)
	}
}

// Where others can reach the admin address, they need an API key that may read.
func TestGatewayIsLookedAtWithAKey(t *testing.T) {
	dir := t.TempDir()
	catalog := filepath.Join(dir, "sluice.db")
	serving := begin(t, "serve", "--catalog", catalog)
	keys := map[string]string{}
	for _, scope := range []string{"sluice:read", "other"} {
		var out strings.Builder
		if code := run(t.Context(), []string{"key", "create", "alice", "--create", "--scope", scope, "--server", serving.url()}, nil, &out, &out); code != exitDone {
			t.Fatalf("exit %d: %s", code, &out)
		}
		keys[scope] = regexp.MustCompile(`slk_\S+`).FindString(out.String())
	}
	serving.signal(t, syscall.SIGTERM)
	serving.wait(t)
	p := begin(t, "gateway", "--upstream", "http://127.0.0.1:1", "--admin-listen", "0.0.0.0:0", "--catalog", catalog)
	for key, want := range map[string]int{"": exitTrouble, keys["other"]: exitTrouble, keys["sluice:read"]: exitDone} {
		var out strings.Builder
		if code := run(t.Context(), []string{"top", "--once", "--token", key, "--server", "http://" + p.admin}, nil, &out, &out); code != want {
			t.Errorf("%.8s: exit %d, want %d: %s", key, code, want, &out)
		}
	}
	p.signal(t, syscall.SIGTERM)
	p.wait(t)
}

func ask(t *testing.T, method, url, body string) (status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w", method, url, err))
	}
	response.Body.Close()
	return response.StatusCode
}
