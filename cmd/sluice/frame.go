package main

import (
	"bytes"
	"io"
	"strconv"
	"unicode"
)

// style is how a cell of the screen looks.
type style uint8

const (
	plain style = iota
	bold
	dim
	green
	yellow
	red
	inverse
)

// escapes begin each style from any other.
var escapes = [...]string{
	plain: "\x1b[m", bold: "\x1b[;1m", dim: "\x1b[;2m", green: "\x1b[;32m", yellow: "\x1b[;33m", red: "\x1b[;31m", inverse: "\x1b[;7m",
}

// cell is one character of the screen. The zero cell is blank.
type cell struct {
	char  rune
	style style
}

// frame is what a screen shows.
type frame struct {
	width, height int
	cells         []cell
}

func newFrame(width, height int) *frame {
	return &frame{width, height, make([]cell, width*height)}
}

// put writes text at a place, at most room cells of it, and answers how many.
// What is cut off ends in an ellipsis.
func (f *frame) put(x, y, room int, s style, text string) int {
	if y < 0 || y >= f.height {
		return 0
	}
	room = min(room, f.width-x)
	n := 0
	for _, r := range text {
		if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
			continue
		}
		if n >= room {
			if room > 0 {
				f.cells[y*f.width+x+n-1].char = '…'
			}
			return n
		}
		f.cells[y*f.width+x+n] = cell{narrow(r), s}
		n++
	}
	return n
}

// narrow keeps to characters that take one cell.
func narrow(r rune) rune {
	switch {
	case unicode.IsControl(r), r == unicode.ReplacementChar:
		return '?'
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f000:
		return '□'
	case r == ' ':
		return 0
	}
	return r
}

// painter brings a terminal from one frame to the next with few bytes, so that
// a live view works over a slow link.
type painter struct {
	out   io.Writer
	shown *frame
	plain bool // no colours

	buffer bytes.Buffer
	x, y   int // where the cursor is; -1 if that is not known
	style  style
}

// skip is how many unchanged cells are written again, as moving the cursor
// over them would cost as much.
const skip = 4

// paint shows a frame.
func (p *painter) paint(f *frame) error {
	p.buffer.Reset()
	if p.shown == nil || p.shown.width != f.width || p.shown.height != f.height {
		p.shown = newFrame(f.width, f.height)
		p.buffer.WriteString("\x1b[m\x1b[2J")
		p.x, p.y, p.style = -1, -1, plain
	}
	for y := range f.height {
		p.paintRow(y, f.cells[y*f.width:(y+1)*f.width], p.shown.cells[y*f.width:(y+1)*f.width])
	}
	copy(p.shown.cells, f.cells)
	if p.buffer.Len() == 0 {
		return nil
	}
	_, err := p.out.Write(p.buffer.Bytes())
	return err
}

func (p *painter) paintRow(y int, now, before []cell) {
	end := len(now) // of what is not blank
	for end > 0 && now[end-1] == (cell{}) {
		end--
	}
	for x := 0; x < end; x++ {
		if now[x] == before[x] {
			continue
		}
		p.move(x, y, now)
		p.write(now[x])
		// A cursor past the last column is somewhere else on each terminal.
		if p.x++; p.x >= len(now) {
			p.x = -1
		}
	}
	for _, c := range before[end:] {
		if c != (cell{}) {
			p.move(end, y, now)
			p.set(plain)
			p.buffer.WriteString("\x1b[K")
			return
		}
	}
}

// move brings the cursor to a place: by writing what is in between again, if
// that is short, and else by the shortest escape.
func (p *painter) move(x, y int, row []cell) {
	switch {
	case p.y == y && p.x == x:
	case p.y == y && p.x >= 0 && x > p.x && x-p.x <= skip && p.same(row[p.x:x]):
		for _, c := range row[p.x:x] {
			p.write(c)
		}
	case p.y == y && p.x >= 0 && x > p.x:
		p.buffer.WriteString("\x1b[" + strconv.Itoa(x-p.x) + "C")
	default:
		p.buffer.WriteString("\x1b[" + strconv.Itoa(y+1))
		if x > 0 {
			p.buffer.WriteString(";" + strconv.Itoa(x+1))
		}
		p.buffer.WriteByte('H')
	}
	p.x, p.y = x, y
}

// same reports whether cells can be written without changing the style.
func (p *painter) same(cells []cell) bool {
	for _, c := range cells {
		if c.style != p.style {
			return false
		}
	}
	return true
}

func (p *painter) write(c cell) {
	p.set(c.style)
	if c.char == 0 {
		c.char = ' '
	}
	p.buffer.WriteRune(c.char)
}

func (p *painter) set(s style) {
	if p.plain && s != inverse {
		s = plain
	}
	if s != p.style {
		p.buffer.WriteString(escapes[s])
		p.style = s
	}
}
