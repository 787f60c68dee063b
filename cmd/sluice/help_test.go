package main

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// everyCommand visits all commands, groups too.
func everyCommand(c *command, path []string, visit func(*command, []string)) {
	if len(path) > 0 {
		visit(c, path)
	}
	for _, s := range c.sub {
		everyCommand(s, append(slices.Clone(path), s.name), visit)
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	top := root()
	everyCommand(top, nil, func(c *command, path []string) {
		name := strings.Join(path, " ")
		text := c.helpText(path)
		if c.summary == "" || !strings.Contains(text, "Usage: sluice "+name) || !strings.Contains(text, "Examples:") {
			t.Errorf("%s: help has no summary, usage or examples:\n%s", name, text)
		}
		if (c.sub == nil) == (c.run == nil && c.raw == nil) {
			t.Errorf("%s: is neither a group nor a command", name)
		}
		if c.raw == nil {
			for _, line := range strings.Split(text, "\n") {
				if utf8.RuneCountInString(line) > 130 {
					t.Errorf("%s: a line of help is too long: %s", name, line)
				}
			}
		}
		for _, example := range c.examples {
			checkExample(t, top, name, example)
		}
	})
}

// checkExample reports examples that would not even be understood.
func checkExample(t *testing.T, top *command, name, example string) {
	t.Helper()
	for _, part := range strings.Split(strings.NewReplacer("||", "|", "&&", "|").Replace(example), "|") {
		args := words(t, strings.TrimSpace(part))
		if args[0] != "sluice" {
			continue
		}
		args = args[1:]
		if args[0] == "help" {
			if err := printHelp(top, args[1:], &strings.Builder{}); err != nil {
				t.Errorf("%s: example %q: %v", name, example, err)
			}
			continue
		}
		at, path := root(), []string(nil)
		for at != nil && at.sub != nil && len(args) > 0 {
			at, path, args = at.find(args[0]), append(path, args[0]), args[1:]
		}
		if at == nil || at.sub != nil {
			t.Errorf("%s: example %q: there is no such command", name, example)
			continue
		}
		if at.raw != nil {
			continue
		}
		c := &call{console: &console{}, path: strings.Join(path, " ")}
		c.flags = at.flagSet(c)
		if i := slices.Index(args, ">"); i >= 0 {
			args = args[:i]
		}
		if err := c.read(args); err != nil {
			t.Errorf("%s: example %q: %v", name, example, err)
		} else if err := at.checkArgs(c); err != nil {
			t.Errorf("%s: example %q: %v", name, example, err)
		}
	}
}

// Flags that mean the same have the same name everywhere, and --json is
// everywhere.
func TestEveryCommandHasTheCommonFlags(t *testing.T) {
	everyCommand(root(), nil, func(c *command, path []string) {
		if c.run == nil {
			return
		}
		flags := c.flagSet(&call{path: strings.Join(path, " ")})
		want := []string{"json"}
		if !c.offline {
			want = append(want, "server", "token", "namespace")
		}
		for _, name := range want {
			if flags.Lookup(name) == nil {
				t.Errorf("%s has no --%s", strings.Join(path, " "), name)
			}
		}
		flags.VisitAll(func(f *flag.Flag) {
			value, about := flagUsage(f)
			boolean, _ := f.Value.(interface{ IsBoolFlag() bool })
			if isBool := boolean != nil && boolean.IsBoolFlag(); isBool != (value == "") || about == "" || strings.Contains(about, "`") {
				t.Errorf("%s --%s: says %q as its value and %q about it", strings.Join(path, " "), f.Name, value, about)
			}
		})
	})
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	for _, c := range []struct {
		line string
		args []string
		cost string
	}{
		{"alice api --cost 3", []string{"alice", "api"}, "3"},
		{"--cost 3 alice api", []string{"alice", "api"}, "3"},
		{"alice --cost=3 api", []string{"alice", "api"}, "3"},
		{"alice --cost 3 -- --api", []string{"alice", "--api"}, "3"},
		{"-- --cost 3", []string{"--cost", "3"}, "0"},
	} {
		take := takeCommand()
		to := &call{console: &console{}, path: "take"}
		to.flags = take.flagSet(to)
		if err := to.read(strings.Fields(c.line)); err != nil || !slices.Equal(to.args, c.args) {
			t.Errorf("%s: got %q, %v", c.line, to.args, err)
		}
		if got := to.flags.Lookup("cost").Value.(*costs).all.String(); got != c.cost {
			t.Errorf("%s: the cost is %s", c.line, got)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		n    int
	}{{"take", "take", 0}, {"tkae", "take", 1}, {"aply", "apply", 1}, {"", "top", 3}, {"kitten", "sitting", 3}, {"usage", "audit", 5}} {
		if got := distance(c.a, c.b); got != c.n {
			t.Errorf("%s to %s: got %d, want %d", c.a, c.b, got, c.n)
		}
	}
}
