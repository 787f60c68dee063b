package main

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever frames follow each other, the terminal shows the last one.
func TestPainterShowsTheFrame(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		screen := newVT(t, 1, 1)
		p := &painter{out: screen}
		for range rapid.IntRange(1, 6).Draw(r, "frames") {
			if rapid.Bool().Draw(r, "resize") || p.shown == nil {
				screen.resize(rapid.IntRange(1, 30).Draw(r, "width"), rapid.IntRange(1, 6).Draw(r, "height"))
			}
			f := newFrame(screen.width, screen.height)
			for range rapid.IntRange(0, 8).Draw(r, "texts") {
				f.put(rapid.IntRange(0, f.width-1).Draw(r, "x"), rapid.IntRange(0, f.height).Draw(r, "y"), rapid.IntRange(0, 40).Draw(r, "room"),
					style(rapid.IntRange(0, int(inverse)).Draw(r, "style")), rapid.StringMatching(`[a-c█ é日\x00]{0,12}`).Draw(r, "text"))
			}
			if err := p.paint(f); err != nil {
				r.Fatal(err)
			}
			for i, c := range f.cells {
				if c.char == 0 && c.style != inverse {
					f.cells[i] = cell{} // a blank looks the same in every colour
				}
			}
			if !slices.Equal(screen.cells, f.cells) {
				r.Fatalf("want\n%s\ngot\n%s", textOf(f.width, f.cells), screen)
			}
		}
	})
}

// byteCounter counts bytes on their way to a terminal.
type byteCounter struct{ n int }

func (c *byteCounter) Write(b []byte) (int, error) {
	c.n += len(b)
	return len(b), nil
}

// A frame that is the same costs nothing; one number that changes costs a few
// bytes.
func TestPainterSendsLittle(t *testing.T) {
	sent := &byteCounter{}
	p := &painter{out: sent}
	paint := func(percent string) int {
		sent.n = 0
		f := newFrame(120, 40)
		for y := range 40 {
			f.put(0, y, 120, plain, "alice  chat  rpm  ████████████████      left 100")
		}
		f.put(60, 20, 5, red, percent)
		if err := p.paint(f); err != nil {
			t.Fatal(err)
		}
		return sent.n
	}
	first := paint("91%")
	if again := paint("91%"); again != 0 {
		t.Errorf("the same frame again cost %d bytes", again)
	}
	if changed := paint("92%"); changed > 16 {
		t.Errorf("one digit cost %d bytes", changed)
	}
	t.Logf("the first frame cost %d bytes", first)
}
