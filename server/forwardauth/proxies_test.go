package forwardauth_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/wiretest"
	"github.com/sluice-go/sluice/policy"
)

// example is the code in docs/forward-auth.md of that language, with the
// addresses of a test in place of its own.
func example(t *testing.T, language string, addresses ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/forward-auth.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(page), "```"+language+"\n")
	if !ok {
		t.Fatalf("the page has no %s", language)
	}
	code, _, _ = strings.Cut(code, "```")
	return strings.NewReplacer(addresses...).Replace(code)
}

func TestThePolicyOfThePageIsOne(t *testing.T) {
	if _, err := policy.Parse("policy.yaml", []byte(example(t, "yaml"))); err != nil {
		t.Error(err)
	}
}

// protected answers 200, or what its path says, and which of the headers that
// nobody may forge have arrived.
func protected(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Asked", r.RequestURI)
	for name, values := range r.Header {
		if plain := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name)); strings.HasPrefix(plain, "x-sluice") || strings.HasPrefix(plain, "x-http-method") {
			for _, v := range values {
				w.Header().Add("Arrived", name+"="+v)
			}
		}
	}
	if r.URL.Path == "/forbidden" {
		w.WriteHeader(http.StatusForbidden)
	}
	fmt.Fprint(w, "the real thing")
}

// servers starts Sluice and what is protected, and answers the addresses to
// put into an example, and that of the proxy.
func servers(t *testing.T, auth http.Handler) (replace []string, proxy string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/auth", auth)
	sluice, behind := httptest.NewServer(mux), httptest.NewServer(http.HandlerFunc(protected))
	t.Cleanup(sluice.Close)
	t.Cleanup(behind.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return []string{
		"127.0.0.1:8080", sluice.Listener.Addr().String(),
		"127.0.0.1:9000", behind.Listener.Addr().String(),
		"127.0.0.1:8000", proxy,
	}, proxy
}

// run starts a proxy and waits until it accepts connections.
func run(t *testing.T, address, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = filepath.Join("/usr/sbin", program)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: scripts/deps installs it", err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // that it ended is what counts
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		said.Close()
	})
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		}
		out, _ := os.ReadFile(said.Name())
		t.Fatalf("%s does not listen on %s:\n%s", program, address, out)
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, method, url string, headers ...string) answer {
	t.Helper()
	response, body := wiretest.Do(t, method, url, nil, headers...)
	return answer{response.StatusCode, response.Header, body}
}

// behave is what a client sees through any of the proxies, under a policy of
// three requests a day and one search.
func behave(t *testing.T, proxy string) {
	t.Helper()
	url := "http://" + proxy
	for i, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/anything?x=1", 200},
		{"POST", "/search", 200},
		{"POST", "/search", 429}, // takes nothing
		{"GET", "/forbidden", 403},
		{"GET", "/anything", 429},
		{"GET", "/health", 200},
	} {
		// A client that says something else about its request is not believed.
		a := send(t, c.method, url+c.path, "X-Forwarded-Uri", "/health", "X-Forwarded-Method", "OPTIONS")
		if a.status != c.status {
			t.Fatalf("step %d: %s %s: %d, want %d: %s", i+1, c.method, c.path, a.status, c.status, a.body)
		}
		switch c.status {
		case 429:
			if a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "429") {
				t.Errorf("step %d: headers %v, body %s", i+1, a.header, a.body)
			}
		default:
			if a.body != "the real thing" || a.header.Get("Retry-After") != "" {
				t.Errorf("step %d: headers %v, body %s", i+1, a.header, a.body)
			}
		}
	}
}

// nginx starts nginx as the page has it, and returns its address.
func nginx(t *testing.T, auth http.Handler) string {
	t.Helper()
	replace, proxy := servers(t, auth)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
%[2]s
}
`, dir, example(t, "nginx", replace...))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, proxy, "nginx", "-p", dir, "-e", "stderr", "-c", conf)
	return proxy
}

func TestNginx(t *testing.T) {
	proxy := nginx(t, auth(t))
	behave(t, proxy)
	if a := send(t, "GET", "http://"+proxy+"/health"); a.header.Get("RateLimit") != "" {
		t.Errorf("a request without limits has %q", a.header.Get("RateLimit"))
	}
}

// caddy starts Caddy as the page has it, and returns its address.
func caddy(t *testing.T, auth http.Handler) string {
	t.Helper()
	replace, proxy := servers(t, auth)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\n\tadmin off\n\tauto_https off\n}\n" + example(t, "caddyfile", replace...)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, proxy, "caddy", "run", "--config", file, "--adapter", "caddyfile")
	return proxy
}

func TestCaddy(t *testing.T) { behave(t, caddy(t, auth(t))) }
