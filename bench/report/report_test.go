package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMarkdownHasClaimsFirst(t *testing.T) {
	s := Suite{Title: "T", Intro: "I.", Claims: []Claim{AtLeast("fast", 1.5, 2), AtMost("small", 90, 91)}}
	table := Table{Title: "Rates", Header: []string{"a", "b"}, Note: "n"}
	table.Add("1", "2")
	s.Tables = append(s.Tables, table)
	want := `## T

I.

### What it should show

| claim | wanted | measured |  |
| --- | --- | --- | --- |
| fast | at least 1.5 | 2 | met |
| small | at most 90 | 91 | **missed** |

### Rates

| a | b |
| --- | --- |
| 1 | 2 |

n
`
	if got := s.Markdown(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestUpdateReplacesOnlyItsOwnSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	for _, s := range []struct{ name, text string }{{"a", "one\n"}, {"b", "two\n"}, {"a", "three\n"}} {
		if err := Update(path, s.name, s.text); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := head + "\n<!-- begin a -->\nthree\n<!-- end a -->\n\n<!-- begin b -->\ntwo\n<!-- end b -->\n"
	if string(page) != want {
		t.Errorf("got:\n%s\nwant:\n%s", page, want)
	}
}

func TestPrintIsAligned(t *testing.T) {
	var b strings.Builder
	s := Suite{Title: "T", Claims: []Claim{AtLeast("x", 2, 1)}}
	s.Print(&b)
	if !strings.Contains(b.String(), "x      at least 2  1         missed") {
		t.Errorf("got:\n%s", b.String())
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{12: "12", 12_345: "12.3 k", 999_900: "1 M", 4_560_000: "4.56 M", 2e9: "2 G"} {
		if got := Count(n); got != want {
			t.Errorf("%v: got %q, want %q", n, got, want)
		}
	}
}
