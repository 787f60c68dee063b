package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// printJSON writes a value for programs.
func (c *call) printJSON(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// print writes a value as JSON if that was asked for, and else for people.
func (c *call) print(v any, forPeople string) error {
	if c.json {
		return c.printJSON(v)
	}
	_, err := io.WriteString(c.stdout, forPeople)
	return err
}

// say writes a line for people, and nothing for programs.
func (c *call) say(format string, args ...any) error {
	if c.json {
		return nil
	}
	_, err := fmt.Fprintf(c.stdout, format+"\n", args...)
	return err
}

// table is rows of text under a header.
type table struct {
	header []string
	rows   [][]string
	right  map[int]bool // columns of numbers
}

// newTable begins a table. A column whose name begins with > has numbers.
func newTable(columns ...string) *table {
	t := &table{right: map[int]bool{}}
	for i, name := range columns {
		if strings.HasPrefix(name, ">") {
			t.right[i] = true
		}
		t.header = append(t.header, strings.TrimPrefix(name, ">"))
	}
	return t
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// printable keeps names from moving the cursor of whoever looks at them.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return '�'
		}
		return r
	}, s)
}

func (t *table) String() string {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.header}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// fields is one thing, a line for each of its fields that is not empty.
type fields [][2]string

func (f fields) String() string {
	width := 0
	for _, field := range f {
		if field[1] != "" {
			width = max(width, len(field[0]))
		}
	}
	var b strings.Builder
	for _, field := range f {
		if field[1] != "" {
			fmt.Fprintf(&b, "%-*s  %s\n", width, field[0], printable(field[1]))
		}
	}
	return b.String()
}

// moment writes a time for people, in UTC as the server counts.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func number[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// percent is a share of a capacity.
func percent(p float64) string { return strconv.FormatFloat(p, 'f', 0, 64) + "%" }

// span writes a duration as people say it, to about three digits.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < 48*time.Hour:
		s := d.Round(time.Second).String()
		s = strings.TrimSuffix(s, "m0s") + strings.Repeat("m", strings.Count(s, "m0s"))
		return strings.Replace(s, "h0m", "h", 1)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
