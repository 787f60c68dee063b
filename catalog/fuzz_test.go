package catalog

import (
	"slices"
	"strings"
	"testing"
)

func FuzzCursor(f *testing.F) {
	f.Add("", "a", "b")
	f.Add(EncodeCursor("x", "y"), "ä", "\"\\")
	f.Add("WyJ4Il0", "", "")
	f.Fuzz(func(t *testing.T, cursor, a, b string) {
		if parts, err := DecodeCursor(cursor, 2); err == nil && cursor != "" && len(parts) != 2 {
			t.Errorf("%q has %d parts, want 2", cursor, len(parts))
		}
		name := strings.NewReplacer("\x00", "?") // as no database would have it
		a, b = name.Replace(strings.ToValidUTF8(a, "?")), name.Replace(strings.ToValidUTF8(b, "?"))
		encoded := EncodeCursor(a, b)
		if len(encoded) > 8<<10 {
			return // longer than any name
		}
		if parts, err := DecodeCursor(encoded, 2); err != nil || !slices.Equal(parts, []string{a, b}) {
			t.Errorf("%q and %q came back as %q, %v", a, b, parts, err)
		}
	})
}

func FuzzKeyID(f *testing.F) {
	f.Add("slk_abcdefghij234567_SECRET")
	f.Add("slk_")
	f.Add("slk_abcdefghij234567")
	f.Fuzz(func(t *testing.T, clear string) {
		if id := keyID(clear); id != "" && (len(id) != keyIDSize || !strings.HasPrefix(clear, keyMark+id+"_") || len(clear) > maxClear) {
			t.Errorf("%q has the id %q", clear, id)
		}
	})
}
