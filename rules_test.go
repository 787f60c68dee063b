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
		if !p.Standard && p.ImportPath != module {
			t.Errorf("the root depends on %s", p.ImportPath)
		}
	}
}

// Dependencies point one way: stores know the root and the arithmetic, but
// not each other, a policy knows no store and no breaker, and only the binary
// knows the server.
func TestDependenciesPointOneWay(t *testing.T) {
	stores := []string{"memory", "redis", "postgres", "sqlite", "dynamo"}
	for _, p := range list(t, "./...") {
		from, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, module+"/"), "/")
		for _, imported := range p.Imports {
			rest, ours := strings.CutPrefix(imported, module+"/")
			to, _, _ := strings.Cut(rest, "/")
			if !ours || to == from {
				continue
			}
			switch {
			case from == "bucket":
				t.Errorf("%s imports %s, but the arithmetic stands on the root alone", p.ImportPath, imported)
			case slices.Contains(stores, from) && slices.Contains(stores, to):
				t.Errorf("%s imports %s, but stores do not know each other", p.ImportPath, imported)
			case from == "policy" && (to == "failover" || slices.Contains(stores, to)):
				t.Errorf("%s imports %s, but a policy only declares and matches", p.ImportPath, imported)
			case to == "server" && from != "cmd", to == "cmd":
				t.Errorf("%s imports %s, but the parts are wired in cmd alone", p.ImportPath, imported)
			}
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
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata") {
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
