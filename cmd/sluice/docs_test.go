package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// example is a command of a document, with what it prints there.
type example struct {
	line    int
	command string
	output  []string
}

// examplesIn finds commands: lines that begin with "$ " in console blocks and
// in indented ones. A backslash at the end goes on.
func examplesIn(text string) (all []example) {
	fenced, open := false, false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced, open = line == "```console", false
			continue
		case fenced:
		case strings.HasPrefix(line, "    "):
			line = strings.TrimPrefix(line, "    ")
		default:
			open = false
			continue
		}
		last := len(all) - 1
		switch {
		case strings.HasPrefix(line, "$ "):
			all = append(all, example{line: i + 1, command: strings.TrimPrefix(line, "$ ")})
			open = true
		case !open:
		case len(all[last].output) == 0 && strings.HasSuffix(all[last].command, `\`):
			all[last].command += "\n" + line
		default:
			all[last].output = append(all[last].output, line)
		}
	}
	return all
}

// longRunning are commands that end only when they are told to.
var longRunning = regexp.MustCompile(`^sluice (serve|gateway|local)\b`)

// Every command in the documents about the command line works, and prints what
// the document says. The server is a real one, in a process of its own.
func TestDocuments(t *testing.T) {
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	// Not this binary: with the race detector in it, it takes a second to start.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "sluice"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"README.md", "docs/cli.md"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(repository, name))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.Symlink(filepath.Join(repository, "examples"), filepath.Join(dir, "examples")); err != nil {
				t.Fatal(err)
			}
			shell := &shell{t: t, dir: dir, env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))}
			address := shell.start("sluice serve --listen 127.0.0.1:0")
			shell.env = append(shell.env, "SLUICE_SERVER=http://"+address)
			examples := examplesIn(string(text))
			if len(examples) == 0 {
				t.Fatal("there are no commands")
			}
			shell.play(name, address, examples)
		})
	}
}

type shell struct {
	t   *testing.T
	dir string
	env []string
}

func (s *shell) command(ctx context.Context, script string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "--norc", "-c", script)
	c.Dir, c.Env = s.dir, s.env
	return c
}

var printedAddress = regexp.MustCompile(`(127\.0\.0\.1:\d+)`)

// start runs a command that stays until the test ends, and answers the first
// address that it prints. It must end well.
func (s *shell) start(line string) string {
	s.t.Helper()
	c := s.command(context.WithoutCancel(s.t.Context()), "exec "+line)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	out := bufio.NewScanner(stdout)
	address := ""
	for address == "" && out.Scan() {
		address = printedAddress.FindString(out.Text())
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for out.Scan() {
		}
	}()
	s.t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Errorf("%s: %v\n%s", line, err, &stderr)
		}
		<-rest
		if err := c.Wait(); err != nil {
			s.t.Errorf("%s: %v\n%s", line, err, &stderr)
		}
	})
	if address == "" {
		s.t.Fatalf("%s printed no address:\n%s", line, &stderr)
	}
	return address
}

// play runs examples in one shell, and compares.
func (s *shell) play(name, address string, examples []example) {
	var script strings.Builder
	var played []example
	for _, e := range examples {
		e.command = strings.ReplaceAll(e.command, "go run ./cmd/sluice", "sluice")
		if longRunning.MatchString(e.command) {
			if !strings.HasPrefix(e.command, "sluice local") {
				e.command += " --listen 127.0.0.1:0"
			}
			s.start(e.command)
			continue
		}
		command := strings.ReplaceAll(e.command, "127.0.0.1:8080", address)
		if strings.HasPrefix(command, "curl ") {
			command = "curl -sS " + strings.TrimPrefix(command, "curl ")
		}
		fmt.Fprintf(&script, "{ %s\n} 2>&1 </dev/null\nprintf '\\001%%d\\001' $?\n", command)
		played = append(played, e)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := s.command(ctx, script.String()).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	parts := strings.Split(string(out), "\x01")
	for i, e := range played {
		printed, code := parts[2*i], parts[2*i+1]
		if code != "0" {
			s.t.Errorf("%s:%d: %s\nexit %s\n%s", name, e.line, e.command, code, printed)
			continue
		}
		if want := strings.TrimSpace(strings.Join(e.output, "\n")); want != "" && !matches(want, printed) {
			s.t.Errorf("%s:%d: %s\nthe document says\n%s\nand it prints\n%s", name, e.line, e.command, want, printed)
		}
	}
}

// matches compares output with what a document says, where … stands for
// anything, runs of spaces are one, and blank lines are nothing.
func matches(want, printed string) bool {
	clean := func(s string) string {
		var lines []string
		for _, line := range strings.Split(s, "\n") {
			if line = strings.Join(strings.Fields(line), " "); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	pattern := regexp.QuoteMeta(clean(strings.ReplaceAll(want, "...", "…")))
	pattern = regexp.MustCompile(`\s*…\s*`).ReplaceAllString(pattern, `[\s\S]*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(clean(printed))
}
