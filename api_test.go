package sluice_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write api.txt as the code is")

// TestTheAPIIsAsRecorded compares what users can name with api.txt, so that no
// release changes it by accident. After a change on purpose, which CHANGELOG.md
// tells users about:
//
//	go test . -run TestTheAPIIsAsRecorded -update-api
func TestTheAPIIsAsRecorded(t *testing.T) {
	var lines []string
	for _, p := range list(t, "./...") {
		ours := p.Name == "main" || p.Name == "world" || strings.HasSuffix(p.Name, "test") && p.Name != "storetest"
		if len(p.GoFiles) > 0 && !ours && !strings.Contains(p.ImportPath, "/internal/") {
			lines = append(lines, exported(t, p)...)
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	if *updateAPI {
		if err := os.WriteFile("api.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range recorded {
		if !slices.Contains(lines, line) {
			t.Errorf("gone, which breaks whoever uses it: %s", line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(recorded, line) {
			t.Errorf("new: %s", line)
		}
	}
}

// exported returns a line for each name that a package exports: constants,
// variables, functions, types, their fields and their methods.
func exported(t *testing.T, p pkg) []string {
	t.Helper()
	dir := filepath.FromSlash("." + strings.TrimPrefix(p.ImportPath, module))
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	d, err := doc.NewFromFiles(fset, files, p.ImportPath)
	if err != nil {
		t.Fatal(err)
	}
	a := api{fset: fset, prefix: "." + strings.TrimPrefix(p.ImportPath, module)}
	a.values(d.Consts)
	a.values(d.Vars)
	a.funcs(d.Funcs)
	for _, typ := range d.Types {
		a.values(typ.Consts)
		a.values(typ.Vars)
		a.funcs(typ.Funcs)
		a.funcs(typ.Methods)
		a.typeOf(typ)
	}
	slices.Sort(a.lines)
	return slices.Compact(a.lines)
}

// api collects the lines of a package.
type api struct {
	fset   *token.FileSet
	prefix string
	lines  []string
}

func (a *api) add(parts ...string) {
	a.lines = append(a.lines, strings.Join(append([]string{a.prefix}, parts...), " "))
}

// text writes a node in one line.
func (a *api) text(node any) string {
	var b bytes.Buffer
	if err := format.Node(&b, a.fset, node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (a *api) values(values []*doc.Value) {
	for _, v := range values {
		for _, name := range v.Names {
			if ast.IsExported(name) {
				a.add(v.Decl.Tok.String(), name)
			}
		}
	}
}

func (a *api) funcs(funcs []*doc.Func) {
	for _, f := range funcs {
		decl := *f.Decl
		decl.Body, decl.Doc = nil, nil
		a.add(a.text(&decl))
	}
}

func (a *api) typeOf(t *doc.Type) {
	for _, spec := range t.Decl.Specs {
		spec := spec.(*ast.TypeSpec)
		if !spec.Name.IsExported() {
			continue
		}
		name := "type " + spec.Name.Name
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			a.add(name, "struct")
			a.members(name, typ.Fields)
		case *ast.InterfaceType:
			a.add(name, "interface")
			a.members(name, typ.Methods)
		default:
			a.add(name, a.text(typ))
		}
	}
}

// members adds the exported fields of a struct, with their tags, which are part
// of files and messages, or the methods of an interface.
func (a *api) members(name string, fields *ast.FieldList) {
	for _, f := range fields.List {
		tag := ""
		if f.Tag != nil {
			tag = " " + f.Tag.Value
		}
		if len(f.Names) == 0 {
			a.add(name, "embeds", a.text(f.Type)+tag)
		}
		for _, n := range f.Names {
			if n.IsExported() {
				a.add(name, n.Name, a.text(f.Type)+tag)
			}
		}
	}
}
