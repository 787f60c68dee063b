package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
				if err := understood(words[1:]); err != nil {
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

// understood reports what is wrong with a command. A sentence may leave out
// arguments, and name a group of commands.
func understood(words []string) error {
	if words[0] == "help" {
		return printHelp(root(), words[1:], &strings.Builder{})
	}
	at, path := root(), []string(nil)
	for at.sub != nil && len(words) > 0 {
		next := at.find(words[0])
		if next == nil {
			return unknown(at, path, words[0])
		}
		at, path, words = next, append(path, words[0]), words[1:]
	}
	if at.raw != nil {
		for _, word := range words {
			if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(name, "--") && !strings.Contains(at.help, name) {
				return errors.New("there is no " + name)
			}
		}
		return nil
	}
	c := &call{console: &console{}, path: strings.Join(path, " ")}
	c.flags = at.flagSet(c)
	if err := c.read(words); err != nil && !errors.Is(err, flag.ErrHelp) && !strings.Contains(err.Error(), "needs an argument") {
		return err
	}
	return nil
}
