package main

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/term"
)

// columns is how wide the terminal is; 80 if there is none.
func (c *call) columns() int {
	if out, ok := c.stdout.(*os.File); ok {
		if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 && n <= 1000 {
		return n
	}
	return 80
}

// terminal is one that a live view has for itself.
type terminal struct {
	in, out *os.File
	before  *term.State
	keys    chan byte
}

// openTerminal takes the terminal over; ok is false if there is none.
func (c *call) openTerminal() (t *terminal, ok bool, err error) {
	in, isIn := c.stdin.(*os.File)
	out, isOut := c.stdout.(*os.File)
	if !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, false, nil
	}
	if os.Getenv("TERM") == "dumb" {
		return nil, false, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, false, err
	}
	t = &terminal{in: in, out: out, before: before, keys: make(chan byte)}
	// The other screen, without a cursor: what was there comes back at the end.
	if _, err := out.WriteString("\x1b[?1049h\x1b[?25l"); err != nil {
		return nil, false, errors.Join(err, t.close())
	}
	go t.read()
	return t, true, nil
}

// read hands keys on for as long as the process lives: a read of a terminal
// cannot be interrupted.
func (t *terminal) read() {
	var b [1]byte
	for {
		if n, err := t.in.Read(b[:]); err != nil || n == 0 {
			close(t.keys)
			return
		}
		t.keys <- b[0]
	}
}

func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return min(width, 1000), min(height, 1000)
}

// close gives the terminal back as it was.
func (t *terminal) close() error {
	_, err := t.out.WriteString("\x1b[m\x1b[?25h\x1b[?1049l")
	return errors.Join(err, term.Restore(int(t.in.Fd()), t.before))
}
