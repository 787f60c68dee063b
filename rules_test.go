package sluice_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-go/sluice"

// source is one Go file of this module that is not a test.
type source struct {
	pkg     string // its folder, relative to the module
	path    string
	imports []string
	doc     string
}

// sources are all of them. Folders with a go.mod are modules of their own.
func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, statErr := os.Stat(filepath.Join(p, "go.mod"))
			if p != "." && (statErr == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, sourceOf(p, file))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found only %d files", len(all))
	}
	return all
}

func sourceOf(p string, file *ast.File) source {
	s := source{pkg: path.Dir(filepath.ToSlash(p)), path: filepath.ToSlash(p), doc: file.Doc.Text()}
	for _, i := range file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			panic(err) // the parser has read it
		}
		s.imports = append(s.imports, name)
	}
	return s
}

// local is the folder of this module that an import names.
func local(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// within reports whether a folder is dir or below it.
func within(folder, dir string) bool {
	return folder == dir || strings.HasPrefix(folder, dir+"/")
}

// TestEveryPackageIsDocumented: a package says what it is for, once.
func TestEveryPackageIsDocumented(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		files := docs[s.pkg]
		if s.doc != "" {
			files = append(files, s.path)
			if !strings.HasPrefix(s.doc, "Package ") && !strings.HasPrefix(s.doc, "Command ") {
				t.Errorf("%s: the package comment begins with neither Package nor Command", s.path)
			}
		}
		docs[s.pkg] = files
	}
	for pkg, files := range docs {
		switch len(files) {
		case 0:
			t.Errorf("package %s has no package comment", pkg)
		case 1:
		default:
			t.Errorf("package %s has more than one package comment: %s", pkg, strings.Join(files, ", "))
		}
	}
}

// TestRootImportsOnlyTheStandardLibrary: who uses the contract gets nothing
// else with it.
func TestRootImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg != "." {
			continue
		}
		for _, i := range s.imports {
			if first, _, _ := strings.Cut(i, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
	}
}

// TestArithmeticIsPure: the reference needs the contract and the standard
// library, nothing else.
func TestArithmeticIsPure(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if first, _, _ := strings.Cut(i, "/"); s.pkg == "bucket" && strings.Contains(first, ".") && i != module {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
	}
}

// TestOnlyCommandsImportTheServer: everything else can be used without it.
func TestOnlyCommandsImportTheServer(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if folder, ok := local(i); ok && within(folder, "server") && !within(s.pkg, "cmd") && !within(s.pkg, "server") {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
	}
}

// TestTechnologiesDoNotMix: a package that is named after a technology does
// not need another one.
func TestTechnologiesDoNotMix(t *testing.T) {
	technologies := []string{"memory", "redis", "postgres", "sqlite", "dynamo"}
	for _, s := range sources(t) {
		for _, own := range technologies {
			if !within(s.pkg, own) {
				continue
			}
			for _, i := range s.imports {
				for _, other := range technologies {
					if folder, ok := local(i); ok && other != own && within(folder, other) {
						t.Errorf("%s imports %s", s.path, i)
					}
				}
			}
		}
	}
}
