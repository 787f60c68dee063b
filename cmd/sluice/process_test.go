package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/client"
)

// ample is far more than anything here takes on a busy machine.
const ample = 2 * time.Minute

// process is sluice serve or sluice gateway in a process of its own: this
// binary, as sluice.
type process struct {
	command              *exec.Cmd
	address, grpc, admin string // where it listens, as it says
	greeting             string
	stderr               bytes.Buffer // complete when it has ended
	rest                 chan string  // what it printed after its greeting
	ended                bool
	transport            http.Transport // of ask
}

var (
	servesAt = regexp.MustCompile(`(?:takes on|requests on from) https?://(\S+)`)
	grpcAt   = regexp.MustCompile(`gRPC on (\S+),`)
	adminAt  = regexp.MustCompile(`metrics +https?://(\S+)/metrics`)
)

// begin starts a process that ends with the test at the latest. Its logs are
// JSON.
func begin(t *testing.T, args ...string) *process {
	t.Helper()
	return beginAs(t, os.Args[0], args...)
}

// beginAs starts a process of another binary.
func beginAs(t *testing.T, binary string, args ...string) *process {
	t.Helper()
	p := &process{rest: make(chan string, 1)}
	p.command = exec.Command(binary, append(args, "--log", "json", "--listen", "127.0.0.1:0")...)
	p.command.Env = append(os.Environ(), asCommand+"=1")
	p.command.Stderr = &p.stderr
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill(t) })
	output := bufio.NewReader(stdout)
	for !strings.Contains(p.greeting, "Stop it with") {
		line, err := output.ReadString('\n')
		if err != nil {
			p.command.Wait() //nolint:errcheck // it has failed, and this is why
			p.ended = true
			t.Fatalf("sluice %s: %v\n%s", strings.Join(args, " "), err, &p.stderr)
		}
		p.greeting += line
	}
	for at, pattern := range map[*string]*regexp.Regexp{&p.address: servesAt, &p.grpc: grpcAt, &p.admin: adminAt} {
		if m := pattern.FindStringSubmatch(p.greeting); m != nil {
			*at = m[1]
		}
	}
	go func() {
		text, _ := io.ReadAll(output) //nolint:errcheck // then it ends here
		p.rest <- string(text)
	}()
	return p
}

func (p *process) url() string { return "http://" + p.address }

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	p.transport.CloseIdleConnections()
	if err := p.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// kill ends it as a crash does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.ended {
		return
	}
	p.signal(t, syscall.SIGKILL)
	<-p.rest
	p.command.Wait() //nolint:errcheck // it was killed
	p.ended = true
}

// wait waits for it to end in peace: with exit code 0, and with nothing in its
// log that is out of the ordinary.
func (p *process) wait(t *testing.T) {
	t.Helper()
	late := time.AfterFunc(ample, func() { p.command.Process.Kill() }) //nolint:errcheck // it has just ended
	defer late.Stop()
	rest := <-p.rest
	err := p.command.Wait()
	p.ended = true
	if err != nil || !strings.Contains(rest, "every request that had begun was answered") {
		t.Errorf("it ended with %v, and said %q\n%s", err, rest, &p.stderr)
	}
	for _, l := range p.logged(t) {
		known := slices.ContainsFunc(ordinary, func(s string) bool { return strings.HasPrefix(l.Msg, s) })
		busy := l.Level == "WARN" && strings.Contains(l.text, "deadline exceeded") // so is the machine
		if l.Level != "INFO" && !known && !busy {
			t.Errorf("it logged %s", l.text)
		}
	}
}

// ordinary are the beginnings of warnings that are no wonder: of buckets that
// are meant to be empty, and of slots that several nodes give at once.
var ordinary = []string{"bucket near its limit", "Window contention"}

// logLine is a line of a log.
type logLine struct {
	Level, Msg string
	text       string
}

// logged is the log of a process that has ended.
func (p *process) logged(t *testing.T) (all []logLine) {
	t.Helper()
	for line := range strings.Lines(p.stderr.String()) {
		l := logLine{text: strings.TrimSpace(line)}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			l.Level = "not JSON"
		}
		all = append(all, l)
	}
	return all
}

// ask is a client of the process, whose connections are given up before the
// process is told to stop.
func (p *process) ask(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: p.url(), HTTPClient: &http.Client{Transport: &p.transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeFile writes a file for a test, and answers its path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(ample); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", ample, what)
		}
	}
}
