package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the output of sessions into testdata")

// Sessions are commands with what they print, in testdata/*.session: a line
// "$ sluice …" is run, and the lines after it are its output; [exit 1] says
// how it ended, if not with 0. A line "> name: text" adds to a file, "! wait 1h"
// moves the server's clock, "! flush" makes it write usage, and "# …" is a
// comment. All commands of a file ask one server.
func TestSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.session")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	for _, path := range files {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".session"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := playSession(t, string(want))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareLines(t, filepath.Base(path), string(want), got)
		})
	}
}

func compareLines(t *testing.T, name, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Fatalf("%s:%d: want\n  %s\ngot\n  %s\nthe whole of it:\n%s", name, i+1, a, b, got)
		}
	}
}

// playSession runs the commands of a session and answers it as it went.
func playSession(t *testing.T, text string) string {
	s := openServer(t)
	t.Chdir(t.TempDir())
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "$ sluice "):
			fmt.Fprintln(&out, line)
			got := s.sluice(t, "", words(t, strings.TrimPrefix(line, "$ sluice "))...)
			out.WriteString(s.mask(got.stdout + got.stderr))
			if got.code != 0 {
				fmt.Fprintf(&out, "[exit %d]\n", got.code)
			}
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&out, line)
			name, content, _ := strings.Cut(strings.TrimPrefix(line, "> "), ": ")
			f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(f, content)
			f.Close()
		case strings.HasPrefix(line, "! flush"):
			fmt.Fprintln(&out, line)
			if err := s.recorder.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(line, "! wait "):
			fmt.Fprintln(&out, line)
			d, err := time.ParseDuration(strings.TrimPrefix(line, "! wait "))
			if err != nil {
				t.Fatal(err)
			}
			s.clock.Advance(d)
		case strings.HasPrefix(line, "# "):
			if out.Len() > 0 {
				out.WriteByte('\n')
			}
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}

var (
	wallClock = regexp.MustCompile(`20(2|3[0-8])\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z`)
	localPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	secretKey = regexp.MustCompile(`slk_([2-7a-z]{16})_\S+`)
)

// mask replaces what is different every time, with as many characters where
// tables depend on it.
func (s *testServer) mask(text string) string {
	text = wallClock.ReplaceAllStringFunc(text, func(m string) string {
		if strings.Contains(m, ".") {
			return "(now)"
		}
		return "(now" + strings.Repeat("w", len(m)-5) + ")"
	})
	text = localPort.ReplaceAllString(text, "127.0.0.1:PORT")
	for _, key := range secretKey.FindAllStringSubmatch(text, -1) {
		s.keys = append(s.keys, key[1])
	}
	text = secretKey.ReplaceAllString(text, "slk_SECRET")
	for _, id := range s.keys {
		text = strings.ReplaceAll(text, id, "(the key's   id)")
	}
	return text
}

// words splits a command line as a shell does, with single and double quotes.
func words(t *testing.T, line string) []string {
	var all []string
	var word strings.Builder
	in, any := rune(0), false
	for _, r := range line {
		switch {
		case in != 0 && r == in:
			in = 0
		case in != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			in, any = r, true
		case r == ' ':
			if any {
				all = append(all, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
			any = true
		}
	}
	if in != 0 {
		t.Fatalf("%s: a quote is not closed", line)
	}
	if any {
		all = append(all, word.String())
	}
	return all
}
