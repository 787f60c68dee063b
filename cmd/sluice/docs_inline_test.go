package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```$")
	inline = regexp.MustCompile("`([^`]+)`")
)

// Commands within sentences are not run. But there are such commands, with
// such flags, and such targets of make.
func TestCommandsInSentences(t *testing.T) {
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range readPages(t, repository) {
		for _, span := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(p.text, ""), -1) {
			words := strings.Fields(span[1])
			switch {
			case len(words) < 2:
			case words[0] == "sluice":
				found++
				// A sentence may leave out arguments, and name a group of commands.
				if _, err := understood(words[1:]); err != nil && !strings.Contains(err.Error(), "needs an argument") && !errors.Is(err, pflag.ErrHelp) {
					t.Errorf("%s: %s: %v", p.name, span[1], err)
				}
			case words[0] == "make":
				found++
				if !strings.Contains(string(makefile), "\n"+words[1]+":") {
					t.Errorf("%s: %s: there is no such target", p.name, span[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands were found", found)
	}
}
