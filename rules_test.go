package sluice_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluice-go/sluice"

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Standard   bool
	GoFiles    []string
	Imports    []string
}

// list is what go list says about packages.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestEveryPackageIsDocumentedAndNamedAfterItsJob(t *testing.T) {
	for _, p := range list(t, "./...") {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		if slices.Contains([]string{"util", "utils", "common", "helpers", "types", "misc"}, path.Base(p.ImportPath)) {
			t.Errorf("%s says nothing about what it is for", p.ImportPath)
		}
	}
}

func TestTheRootImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, p := range list(t, "-deps", ".") {
		if !p.Standard && p.ImportPath != module && p.ImportPath != module+"/internal/excerpt" {
			t.Errorf("the root depends on %s", p.ImportPath)
		}
	}
}

// drawn reads the graph of imports from docs/architecture.md: in blocks marked
// imports, a package and, after an arrow, what it imports. A line without a
// package goes on with the one before.
func drawn(t *testing.T, page string) map[string][]string {
	t.Helper()
	graph := map[string][]string{}
	inside, from := false, ""
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			inside = strings.TrimSpace(line) == "```imports"
			continue
		}
		if !inside {
			continue
		}
		imports := line
		if !strings.HasPrefix(line, " ") {
			name, rest, _ := strings.Cut(line, "→")
			from, imports = strings.TrimSpace(name), rest
			if _, twice := graph[from]; twice {
				t.Errorf("%s has two lines", from)
			}
			graph[from] = nil
		}
		for to := range strings.FieldsSeq(imports) {
			if _, ok := graph[to]; !ok || to == from {
				t.Errorf("%s imports %s, which must stand on an earlier line", from, to)
			}
			graph[from] = append(graph[from], to)
		}
	}
	return graph
}

func architecture(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// imported returns what each package with code imports of this module. The root
// is called sluice.
func imported(t *testing.T) map[string][]string {
	t.Helper()
	short := func(path string) (string, bool) {
		if path == module {
			return "sluice", true
		}
		return strings.CutPrefix(path, module+"/")
	}
	graph := map[string][]string{}
	for _, p := range list(t, "./...") {
		if len(p.GoFiles) == 0 {
			continue
		}
		from, _ := short(p.ImportPath)
		graph[from] = nil
		for _, path := range p.Imports {
			if to, ours := short(path); ours {
				graph[from] = append(graph[from], to)
			}
		}
	}
	return graph
}

func TestImportsAreAsDrawn(t *testing.T) {
	want, got := drawn(t, architecture(t)), imported(t)
	for from, imports := range got {
		if _, ok := want[from]; !ok {
			t.Errorf("docs/architecture.md has no line for %s", from)
		}
		for _, to := range imports {
			if !slices.Contains(want[from], to) {
				t.Errorf("%s imports %s, against docs/architecture.md", from, to)
			}
		}
	}
	for from, imports := range want {
		if _, ok := got[from]; !ok {
			t.Errorf("docs/architecture.md has a line for %s, which does not exist", from)
		}
		for _, to := range imports {
			if !slices.Contains(got[from], to) {
				t.Errorf("docs/architecture.md says that %s imports %s", from, to)
			}
		}
	}
}

// However the graph is drawn: technologies do not know each other and have the
// same jobs, the arithmetic stands on the root, and parts are wired in cmd.
func TestDependenciesPointOneWay(t *testing.T) {
	technologies := []string{"memory", "redis", "postgres", "sqlite", "dynamodb"}
	jobs := []string{"", "limitstore", "catalogstore", "slotstore", "replaystore"}
	for from, imports := range imported(t) {
		here, job, _ := strings.Cut(from, "/")
		technology := slices.Contains(technologies, here)
		if technology && !strings.HasSuffix(job, "test") && !slices.Contains(jobs, job) {
			t.Errorf("%s is no job that a technology does", from)
		}
		for _, to := range imports {
			there, _, _ := strings.Cut(to, "/")
			switch {
			case here == there:
			case from == "bucket" && to != "sluice":
				t.Errorf("%s imports %s, but the arithmetic stands on the root alone", from, to)
			case technology && slices.Contains(technologies, there):
				t.Errorf("%s imports %s, but technologies do not know each other", from, to)
			case here == "policy" && (there == "failover" || slices.Contains(technologies, there)):
				t.Errorf("%s imports %s, but a policy only declares and matches", from, to)
			case there == "server" && here != "cmd", there == "cmd":
				t.Errorf("%s imports %s, but the parts are wired in cmd alone", from, to)
			}
		}
	}
}

func TestOnlyMetricsKnowsPrometheus(t *testing.T) {
	for _, p := range list(t, "./...") {
		here, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, module+"/"), "/")
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/prometheus/") && here != "metrics" && here != "cmd" {
				t.Errorf("%s imports %s, but metrics stand in package metrics", p.ImportPath, path)
			}
		}
	}
}

// The walks name packages in bold, each once, and pass through what is drawn:
// a package is imported by one that was passed before, or wired by cmd/sluice.
func TestWalksNameEachPackageOnce(t *testing.T) {
	page := architecture(t)
	graph := drawn(t, page)
	_, walks, ok := strings.Cut(page, "## Two walks\n")
	if !ok {
		t.Fatal("there are no walks")
	}
	walks, _, _ = strings.Cut(walks, "\n## ")
	name := regexp.MustCompile("\\*\\*`([^`]+)`\\*\\*")
	for i, walk := range strings.Split(walks, "\n### ")[1:] {
		var passed []string
		for _, m := range name.FindAllStringSubmatch(walk, -1) {
			to := m[1]
			if slices.Contains(passed, to) {
				t.Errorf("walk %d names %s twice", i+1, to)
			}
			reached := func(from string) bool { return from == "cmd/sluice" || slices.Contains(graph[from], to) }
			if _, ok := graph[to]; !ok || to != "client" && to != "cmd/sluice" && !slices.ContainsFunc(passed, reached) {
				t.Errorf("walk %d cannot reach %s", i+1, to)
			}
			passed = append(passed, to)
		}
		if len(passed) < 10 {
			t.Errorf("walk %d names %d packages", i+1, len(passed))
		}
	}
}

// files calls check with every file whose name ends so.
func files(t *testing.T, suffix string, check func(name, content string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, suffix) {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		check(filepath.ToSlash(name), string(content))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsPutOffOrSkipped(t *testing.T) {
	putOff := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	skipped := regexp.MustCompile(`\b(t|b|f|tb)\.Skip` + `(f|Now)?\(`)
	files(t, ".go", func(name, content string) {
		for i, line := range strings.Split(content, "\n") {
			if putOff.MatchString(line) || skipped.MatchString(line) {
				t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	})
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	files(t, ".md", func(name, content string) {
		for _, m := range link.FindAllStringSubmatch(content, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(path.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	})
}
