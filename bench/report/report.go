// Package report writes what was measured: as text for whoever runs it, and
// as a section of the benchmarks page.
package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Suite is the result of one suite.
type Suite struct {
	Name   string // the section's name in the page
	Title  string
	Intro  string
	Claims []Claim
	Tables []Table
}

// Table is one table with a note below it.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
	Note   string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Claim is something Sluice wants to show, and what was measured.
type Claim struct {
	What string
	Want string
	Got  string
	Met  bool
}

// AtLeast is a claim about a ratio with a lower bound.
func AtLeast(what string, want, got float64) Claim {
	return Claim{what, fmt.Sprintf("at least %.4g", want), fmt.Sprintf("%.3g", got), got >= want}
}

// AtMost is a claim about a figure with an upper bound.
func AtMost(what string, want, got float64) Claim {
	return Claim{what, fmt.Sprintf("at most %.4g", want), fmt.Sprintf("%.3g", got), got <= want}
}

func claims(all []Claim) Table {
	t := Table{Title: "What it should show", Header: []string{"claim", "wanted", "measured", ""}}
	for _, c := range all {
		verdict := "met"
		if !c.Met {
			verdict = "**missed**"
		}
		t.Add(c.What, c.Want, c.Got, verdict)
	}
	return t
}

func (s *Suite) tables() []Table {
	if len(s.Claims) == 0 {
		return s.Tables
	}
	return append([]Table{claims(s.Claims)}, s.Tables...)
}

// Print writes the suite as text.
func (s *Suite) Print(w io.Writer) {
	fmt.Fprintf(w, "\n== %s ==\n", s.Title)
	for _, t := range s.tables() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tw, "  %s\t\n", strings.Join(t.Header, "\t"))
		for _, r := range t.Rows {
			fmt.Fprintf(tw, "  %s\t\n", strings.ReplaceAll(strings.Join(r, "\t"), "**", ""))
		}
		tw.Flush()
	}
}

// Markdown is the suite as a section of the page.
func (s *Suite) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n", s.Title, s.Intro)
	for _, t := range s.tables() {
		fmt.Fprintf(&b, "\n### %s\n\n", t.Title)
		row(&b, t.Header)
		row(&b, strings.Split(strings.Repeat("---,", len(t.Header)-1)+"---", ","))
		for _, r := range t.Rows {
			row(&b, r)
		}
		if t.Note != "" {
			fmt.Fprintf(&b, "\n%s\n", t.Note)
		}
	}
	return b.String()
}

func row(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}
