package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// unrun are the commands of the pages that are not run as they stand, with the
// reason, and what is run in their place, if anything can be.
var unrun = []struct{ page, command, reason, instead string }{
	{"README.md", "make test", "this test is part of it", "make -n test"},
	{"CONTRIBUTING.md", "make build", "it writes into the repository, and compiles everything once more", "make -n build"},
	{"CONTRIBUTING.md", "make test", "this test is part of it", "make -n test"},
	{"CONTRIBUTING.md", "make lint", "it takes a minute, and make test does it", "make -n lint"},
	{"docs/operations.md", "docker compose -f deploy/compose.yaml up --build", "it needs a container engine and fetches images; the tests in deploy check the files", ""},
	{"docs/world.md", "go test ./world -run '^TestWorlds$' -world.seed 1550", "the tests of world play it", "go test ./world -list TestWorlds -world.seed 1550 | grep TestWorlds"},
	{"docs/world.md", "go test ./world -run '^TestWorlds$' -world.seed 1550 -world.without 0", "the tests of world play it", "go test ./world -list TestWorlds -world.without 0 | grep TestWorlds"},
	{"docs/slots.md", "go test ./schedule -run 'KilledWriter|InProcesses' -v -slots.events 200000 -slots.seconds 60", "it takes minutes",
		"go test ./schedule -list 'KilledWriter|InProcesses' -slots.events 200000 -slots.seconds 60 | grep Test"},
	{"docs/temporal.md", "cd temporal && go build -o ../bin/ ./cmd/sluice-temporal", "its module takes minutes to build, and make temporal does it", ""},
	{"docs/temporal.md", "bin/sluice-temporal --workflow pay --task-queue payment-exec --secret-file webhook.secret", "the tests of its module run it", ""},
}

// granted are what commands of the pages take for granted, as a command that
// is run before.
var granted = []struct{ page, command, before string }{
	{"README.md", "sluice serve --store redis://redis:6379 --catalog postgres://db/sluice --policy policy.yaml", "cp examples/rest-api.yaml policy.yaml"},
	{"docs/envoy.md", "sluice serve --envoy-config /etc/ratelimit/config --store redis://localhost:6379",
		"mkdir config && sed -n '/^```yaml/,/^```/{//!p}' $repository/docs/envoy.md >config/shop.yaml"},
	{"docs/operations.md", "sluice serve --store redis://127.0.0.1:6379 --catalog postgres://localhost/sluice \\\n" +
		"  --policy policy.yaml --admin-listen 127.0.0.1:9090 --log json", "cp examples/rest-api.yaml policy.yaml"},
	{"docs/operations.md", "sluice replays lookup POST orders 8e03978e --entity user:42", crashed},
	{"docs/operations.md", "sluice replays settle POST orders 8e03978e --entity user:42 --status 201 --body answer.json", "echo '{}' >answer.json;" + crashed},
}

// crashed leaves an order behind whose process has crashed.
const crashed = `sluice replays claim POST orders 8e03978e --entity user:42 --life 100ms &&
	until sluice replays lookup POST orders 8e03978e --entity user:42 | grep crashed; do :; done`

// longRunning are commands that end only when they are told to.
var longRunning = regexp.MustCompile(`^([A-Z_]+=\S+\s+)*sluice (serve|gateway|local)\b`)

// asks are commands that a server answers.
var asks = regexp.MustCompile(`\bsluice |127\.0\.0\.1:8080`)

// Every command in the documents works, and prints what the document says. All
// servers are real ones, in processes of their own. Each page has a folder, a
// shell and servers of its own, and a sluice that serves, unless it starts one
// itself.
func TestDocuments(t *testing.T) {
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := readPages(t, repository)
	for _, u := range unrun {
		if !slices.ContainsFunc(pages, func(p *page) bool { return p.name == u.page && p.has(u.command) }) {
			t.Errorf("%s: %s\nis in the list of commands that are not run, but not in the page", u.page, u.command)
		}
	}
	for _, g := range granted {
		if !slices.ContainsFunc(pages, func(p *page) bool { return p.name == g.page && p.has(g.command) }) {
			t.Errorf("%s: %s\nis said to take something for granted, but is not in the page", g.page, g.command)
		}
	}
	for _, p := range pages {
		for _, stray := range p.stray {
			t.Error(stray)
		}
	}
	if t.Failed() {
		return // rather than run what takes minutes
	}
	bin := t.TempDir()
	// Not this binary: with the race detector in it, it takes a second to start.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "sluice"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	postgres := postgrestest.Start(t)
	for _, p := range pages {
		if len(p.examples) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.play(newShell(t, repository, bin, postgres))
		})
	}
}

func (p *page) has(command string) bool {
	return slices.ContainsFunc(p.examples, func(e example) bool { return e.command == command })
}

// play runs the commands of a page, and compares.
func (p *page) play(s *shell) {
	for i := range p.examples {
		e := p.examples[i]
		for _, g := range granted {
			if g.page == p.name && g.command == e.command {
				p.run(s, &example{line: e.line, command: g.before})
			}
		}
		skip := false
		for _, u := range unrun {
			if u.page == p.name && u.command == e.command {
				skip = u.instead == ""
				e = example{line: e.line, command: u.instead}
			}
		}
		if !skip {
			p.run(s, &e)
		}
	}
	s.stop()
}

func (p *page) run(s *shell, e *example) {
	t := s.t
	t.Helper()
	if s.serving == "" && asks.MatchString(e.command) && !longRunning.MatchString(e.command) {
		s.start("sluice serve")
	}
	command := s.here(e.command)
	where := fmt.Sprintf("%s:%d: %s", p.name, e.line, e.command)
	var printed string
	if longRunning.MatchString(command) {
		printed = s.start(command)
	} else {
		var code string
		if printed, code = s.do(command); code != "0" {
			t.Fatalf("%s\nexit %s\n%s", where, code, printed)
		}
	}
	for _, status := range statuses.FindAllStringSubmatch(printed, -1) {
		if e.status == "" && status[1][0] != '2' || e.status != "" && e.status != status[1] {
			t.Errorf("%s\nis answered with status %s:\n%s", where, status[1], printed)
		}
	}
	printed = s.there(statuses.ReplaceAllString(printed, ""))
	if want := strings.TrimSpace(strings.Join(e.output, "\n")); want != "" && !matches(want, printed) {
		t.Errorf("%s\nthe document says\n%s\nand it prints\n%s", where, want, printed)
	}
	if e.answer != "" {
		if difference := differs(e.answer, printed); difference != "" {
			t.Errorf("%s\n%s", where, difference)
		}
	}
}

// statuses are what the shell's curl adds.
var statuses = regexp.MustCompile("\x02(\\d+)\x02")

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

// differs says where an answer in JSON is not what is shown of it. What is not
// shown may be anything.
func differs(shown, printed string) string {
	var want, got any
	if err := json.Unmarshal([]byte(shown), &want); err != nil {
		return fmt.Sprintf("%v: the document says\n%s", err, shown)
	}
	if err := json.Unmarshal([]byte(printed), &got); err != nil {
		return fmt.Sprintf("%v: it prints\n%s", err, printed)
	}
	if where := differsAt(want, got, "answer"); where != "" {
		return fmt.Sprintf("%s\nthe document says\n%s\nand it prints\n%s", where, shown, printed)
	}
	return ""
}

func differsAt(want, got any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name, v := range want {
			if where := differsAt(v, object[name], at+"."+name); where != "" {
				return where
			}
		}
		return ""
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return fmt.Sprintf("%s: %v is not %v", at, got, want)
		}
		for i := range want {
			if where := differsAt(want[i], list[i], fmt.Sprintf("%s[%d]", at, i)); where != "" {
				return where
			}
		}
		return ""
	}
	// Time passes between the commands: waits become shorter, and part of a
	// token may have come back.
	shown, _ := want.(float64)
	if got, ok := got.(float64); ok && (strings.HasSuffix(at, "After") && got <= shown && got >= shown-15 ||
		strings.HasSuffix(at, ".remaining") && math.Floor(got) == shown) {
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s: %v is not %v", at, got, want)
	}
	return ""
}
