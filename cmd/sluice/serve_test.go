package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The whole command in a process of its own: it says where it listens, the
// line it prints to try it works, and a signal ends it in peace.
func TestServeInAProcess(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--catalog", filepath.Join(t.TempDir(), "sluice.db"))
			command.Env = append(os.Environ(), asCommand+"=1")
			var stderr bytes.Buffer
			command.Stderr = &stderr
			stdout, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			output := bufio.NewReader(stdout)
			tryIt := regexp.MustCompile(`curl -d '(.*)' (http://.*)`)
			var try []string
			for try == nil {
				line, err := output.ReadString('\n')
				if err != nil {
					t.Fatalf("it printed no curl line: %v\n%s", err, &stderr)
				}
				try = tryIt.FindStringSubmatch(line)
			}
			// As curl -d does it.
			response, err := http.Post(try[2], "application/x-www-form-urlencoded", strings.NewReader(try[1]))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != 200 || !strings.Contains(string(body), `"remaining":19`) {
				t.Errorf("got %d %s, %v", response.StatusCode, body, err)
			}
			if err := command.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(output)
			if err != nil || !strings.Contains(string(rest), "every request that had begun was answered") {
				t.Errorf("last words %q, %v", rest, err)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &stderr)
			}
		})
	}
}

func TestServeOnATakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"serve", "--listen", listener.Addr().String(), "--catalog", filepath.Join(t.TempDir(), "sluice.db")}, nil, &stdout, &stderr)
	if code != exitTrouble || !strings.Contains(stderr.String(), "choose another address with --listen") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:80":   "127.0.0.1:80",
		"[::]:80":      "127.0.0.1:80",
		"[::1]:80":     "[::1]:80",
		"10.1.2.3:443": "10.1.2.3:443",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := reachable(tcp); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
