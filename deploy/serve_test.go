package deploy_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// binary builds the program.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestTheSampleStarts: the settings of the compose file, with servers and
// addresses of this test, make a node that is ready and has metrics.
func TestTheSampleStarts(t *testing.T) {
	program := binary(t)
	help, err := exec.CommandContext(t.Context(), program, "help", "serve").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, environment := settings(t)
	for name := range environment {
		if flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "SLUICE_"), "_", "-")); !strings.Contains(string(help), flag+" ") {
			t.Errorf("%s: serve has no %s", name, flag)
		}
	}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	known := regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(openCompose(t).Configs["tokens"].Content, "a-secret-for-prometheus")
	if err := os.WriteFile(tokens, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(program, "serve", "--config", "sluice/sluice.yaml")
	serve.Env = append(os.Environ(),
		"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_POLICY=sluice/policy.yaml",
		"SLUICE_TOKENS="+tokens, "SLUICE_ADMIN_TOKEN=a-secret-for-this-test", "SLUICE_STORE="+redistest.Start(t).URL(), "SLUICE_CATALOG="+postgrestest.Database(t))
	var log strings.Builder
	serve.Stderr = &log
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(t.Context(), func() { serve.Process.Kill() }) //nolint:errcheck // it may have ended
	defer stop()
	admin := address(t, out)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": `"ready":true`, "/metrics": "sluice_takes_total"} {
		if body := fetch(t, admin+path); !strings.Contains(body, want) {
			t.Errorf("%s answers\n%s", path, body)
		}
	}
	shows(t, fetch(t, admin+"/metrics"))
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil || !strings.Contains(string(rest), "stopped") {
		t.Errorf("%v\n%s\n%s", err, rest, log.String())
	}
}

// address is where the greeting says that metrics are.
func address(t *testing.T, out io.Reader) string {
	t.Helper()
	at := regexp.MustCompile(`metrics +(http://\S+)/metrics`)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if m := at.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if err != nil {
			t.Fatalf("it does not say where metrics are: %v", err)
		}
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// shows checks that a node has the metrics of everything that it is made of.
// Those of a store in memory it has not, and without refusals there are none
// to count.
func shows(t *testing.T, metrics string) {
	t.Helper()
	for name := range exposed(t) {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		missing := !strings.Contains(metrics, "# TYPE "+base+" ") && !strings.Contains(metrics, "# TYPE "+name+" ")
		elsewhere := name == "up" || strings.HasPrefix(name, "sluice_memory_") || strings.HasPrefix(name, "sluice_clock_") || strings.HasPrefix(name, "sluice_process_memory_") ||
			name == "sluice_refusals_total" || name == "sluice_utilization_ratio" || name == "sluice_shadow_refusals_total" ||
			strings.HasPrefix(name, "sluice_requests_")
		if missing && !elsewhere {
			t.Errorf("the node does not show %s", name)
		}
	}
}
