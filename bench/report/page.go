package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const head = `# Benchmarks

Written by ` + "`make bench`" + `: do not edit. Each suite measures all contenders in one run, taking
turns, and compares them within each round; figures are medians. Compare the
ratios, not the absolute figures: those belong to the machine named.
`

// Update replaces the section of that name in the page, or appends it, and
// leaves the sections of other suites as they are.
func Update(path, name, section string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(replace(string(old), name, section)), 0o644)
}

func replace(page, name, section string) string {
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
	section = begin + section + end
	if page == "" {
		page = head
	}
	before, rest, found := strings.Cut(page, begin)
	if !found {
		return page + "\n" + section
	}
	_, after, _ := strings.Cut(rest, end)
	return before + section + after
}
