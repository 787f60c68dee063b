package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"", ""},
		{"alice", "alice"},
		{"josé/☃", "josé/☃"},
		{`a\b`, `a\b`},
		{`\a`, `\5c61`},
		{`\`, `\5c`},
		{"a\x00b", `\610062`},
		{"\xff", `\ff`},
	} {
		if got := Text(c.name); got != c.want {
			t.Errorf("text(%q): got %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("alice", "bob")
	f.Add(`\5c`, `\`)
	f.Add("\x00", "\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Text(a), Text(b)
		if Untext(x) != a {
			t.Errorf("%q came back as %q", a, Untext(x))
		}
		if (x == y) != (a == b) {
			t.Errorf("%q and %q are written as %q and %q", a, b, x, y)
		}
		if !utf8.ValidString(x) || strings.Contains(x, "\x00") {
			t.Errorf("%q is written as %q, which is not text", a, x)
		}
	})
}
