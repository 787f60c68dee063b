package main

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// vt is as much of a terminal as top uses, and no more: what it does not know
// fails the test.
type vt struct {
	t             testing.TB
	width, height int
	cells         []cell
	x, y          int
	style         style
	other, hidden bool // the other screen is on, the cursor is hidden
	rest          []byte
}

func newVT(t testing.TB, width, height int) *vt {
	return &vt{t: t, width: width, height: height, cells: make([]cell, width*height)}
}

// resize is what most terminals do: what fits stays.
func (v *vt) resize(width, height int) {
	cells := make([]cell, width*height)
	for y := range min(height, v.height) {
		copy(cells[y*width:(y+1)*width], v.cells[y*v.width:(y+1)*v.width])
	}
	v.width, v.height, v.cells = width, height, cells
}

func (v *vt) Write(b []byte) (int, error) {
	v.rest = append(v.rest, b...)
	for len(v.rest) > 0 {
		n := v.step(v.rest)
		if n == 0 {
			break
		}
		v.rest = v.rest[n:]
	}
	return len(b), nil
}

// step takes one character or escape, if it is there as a whole.
func (v *vt) step(b []byte) int {
	if b[0] == 0x1b {
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 {
				v.escape(string(b[2:i]), b[i])
				return i + 1
			}
		}
		return 0
	}
	if !utf8.FullRune(b) {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	switch {
	case r < ' ':
		v.t.Errorf("unexpected control character %q", r)
	case v.x >= v.width || v.y >= v.height:
		v.t.Errorf("wrote %q outside of the screen, at %d, %d", r, v.x, v.y)
	default:
		if r == ' ' && v.style != inverse {
			v.cells[v.y*v.width+v.x] = cell{}
		} else if r == ' ' {
			v.cells[v.y*v.width+v.x] = cell{0, v.style}
		} else {
			v.cells[v.y*v.width+v.x] = cell{r, v.style}
		}
		v.x++
	}
	return n
}

func (v *vt) escape(parameters string, final byte) {
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			n = 1
		}
		return n
	}
	switch {
	case final == 'H':
		row, column, _ := strings.Cut(parameters, ";")
		v.y, v.x = number(row)-1, number(column)-1
	case final == 'C':
		v.x += number(parameters)
	case final == 'K' && parameters == "":
		clear(v.cells[v.y*v.width+v.x : (v.y+1)*v.width])
	case final == 'J' && parameters == "2":
		clear(v.cells)
	case final == 'm':
		for s, escape := range escapes {
			if escape == "\x1b["+parameters+"m" {
				v.style = style(s)
				return
			}
		}
		v.t.Errorf("unknown style %q", parameters)
	case parameters == "?1049":
		v.other = final == 'h'
	case parameters == "?25":
		v.hidden = final == 'l'
	default:
		v.t.Errorf("unknown escape %q %c", parameters, final)
	}
}

// String is the screen without its colours.
func (v *vt) String() string { return textOf(v.width, v.cells) }

func textOf(width int, cells []cell) string {
	var b strings.Builder
	for len(cells) > 0 {
		var line strings.Builder
		for _, c := range cells[:width] {
			if c.char == 0 {
				c.char = ' '
			}
			line.WriteRune(c.char)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		cells = cells[width:]
	}
	return b.String()
}
