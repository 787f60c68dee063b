package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand visits all commands but sluice itself.
func everyCommand(visit func(*cobra.Command)) {
	every(root(), func(cmd *cobra.Command) {
		if cmd.HasParent() {
			visit(cmd)
		}
	})
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	everyCommand(func(cmd *cobra.Command) {
		var out strings.Builder
		if code := run(t.Context(), append([]string{"help"}, strings.Fields(path(cmd))...), nil, &out, &out); code != exitDone {
			t.Errorf("help %s: exit %d", path(cmd), code)
		}
		if cmd.Short == "" || !strings.Contains(out.String(), "Usage: sluice "+path(cmd)) || cmd.Example == "" && cmd.Name() != "help" {
			t.Errorf("%s: help has no summary, usage or examples:\n%s", path(cmd), &out)
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if utf8.RuneCountInString(line) > 130 {
				t.Errorf("%s: a line of help is too long: %s", path(cmd), line)
			}
		}
		for _, example := range strings.Split(cmd.Example, "\n") {
			checkExample(t, path(cmd), example)
		}
	})
}

// checkExample reports examples that would not even be understood.
func checkExample(t *testing.T, name, example string) {
	t.Helper()
	for _, part := range strings.Split(strings.NewReplacer("||", "|", "&&", "|").Replace(example), "|") {
		args := words(t, strings.TrimSpace(part))
		if len(args) == 0 || args[0] != "sluice" {
			continue
		}
		if i := slices.Index(args, ">"); i >= 0 {
			args = args[:i]
		}
		cmd, err := understood(args[1:])
		if err == nil && cmd.HasSubCommands() {
			err = unknown(cmd, "nothing")
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: example %q: %v", name, example, err)
		}
	}
}

// understood finds the command that words name, and reads its flags.
func understood(words []string) (*cobra.Command, error) {
	top := root()
	cmd, rest, err := top.Find(explicit(top, words))
	if err == nil {
		if err = cmd.ParseFlags(rest); err != nil {
			err = badFlag(cmd, err)
		}
	}
	if words := cmd.Flags().Args(); err == nil && cmd.HasSubCommands() && len(words) > 0 {
		err = unknown(cmd, words[0])
	}
	if err == nil && cmd.Name() == "help" {
		if about, rest, _ := top.Find(cmd.Flags().Args()); len(rest) > 0 {
			err = unknown(about, rest[0])
		}
	}
	return cmd, err
}

// Flags that mean the same have the same name everywhere, and --json is
// everywhere.
func TestEveryCommandHasTheCommonFlags(t *testing.T) {
	alone := []string{"serve", "gateway", "help", "completion", "man"}
	offline := []string{"dynamodb delete", "dynamodb list", "dynamodb setup", "dynamodb status", "local", "migrate", "policy check", "policy schema", "version"}
	everyCommand(func(cmd *cobra.Command) {
		if cmd.HasSubCommands() || slices.Contains(alone, path(cmd)) {
			return
		}
		want := []string{"json"}
		if !slices.Contains(offline, path(cmd)) {
			want = append(want, "server", "token", "namespace", "config")
		}
		for _, name := range want {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", path(cmd), name)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value, about := pflag.UnquoteUsage(f)
			if isBool := f.Value.Type() == "bool"; isBool != (value == "") || about == "" || value == "string" || value == "int" {
				t.Errorf("%s --%s: says %q as its value and %q about it", path(cmd), f.Name, value, about)
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
		{"take alice api --cost 3", []string{"alice", "api"}, "3"},
		{"take --cost 3 alice api", []string{"alice", "api"}, "3"},
		{"take alice --cost=3 api", []string{"alice", "api"}, "3"},
		{"--cost 3 take alice api", []string{"alice", "api"}, "3"},
		{"--json --up-to take --cost 3 alice api", []string{"alice", "api"}, "3"},
		{"--server http://127.0.0.1:1 --json take take --cost 3", []string{"take"}, "3"},
		{"take alice --cost 3 -- --api", []string{"alice", "--api"}, "3"},
		{"take -- --cost --json", []string{"--cost", "--json"}, "0"},
	} {
		cmd, err := understood(strings.Fields(c.line))
		if err != nil || path(cmd) != "take" || !slices.Equal(cmd.Flags().Args(), c.args) {
			t.Errorf("%s: got %s %q, %v", c.line, path(cmd), cmd.Flags().Args(), err)
			continue
		}
		if got := cmd.Flags().Lookup("cost").Value.(*costs).all.String(); got != c.cost {
			t.Errorf("%s: the cost is %s", c.line, got)
		}
	}
}

// A flag overrides the environment, which overrides the file, which overrides
// the default.
func TestSettings(t *testing.T) {
	file := writeFile(t, t.TempDir(), "sluice.yaml", "listen: 127.0.0.1:1\nserver: http://file\naccess-log: true\nwarn-at: 50\nupstream: http://api\n")
	t.Setenv("SLUICE_CONFIG", file)
	t.Setenv("SLUICE_SERVER", "http://environment")
	t.Setenv("SLUICE_LOG", "json")
	t.Setenv("SLUICE_JSON", "true") // is no setting
	for line, want := range map[string]string{
		"take a":                              "server=http://environment token= json=false",
		"take a --server http://flag":         "server=http://flag",
		"serve":                               "listen=127.0.0.1:1 access-log=true warn-at=50 critical-at=90 log=json",
		"serve --access-log=false --log text": "access-log=false log=text",
		"gateway --listen 127.0.0.1:2":        "listen=127.0.0.1:2 upstream=http://api",
	} {
		cmd, err := understood(strings.Fields(line))
		if err == nil {
			err = settle(cmd, nil)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		for _, pair := range strings.Fields(want) {
			name, value, _ := strings.Cut(pair, "=")
			if got := cmd.Flags().Lookup(name).Value.String(); got != value {
				t.Errorf("%s: %s is %q, want %q", line, name, got, value)
			}
		}
	}
}

func TestWrongSettings(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"lisen: 1":             "sluice.yaml:1: lisen: no such setting; see sluice help serve",
		"log: text\nlisten: x": `serve: ` + filepath.Join(dir, "sluice.yaml") + `:2: listen "x": want an address such as 127.0.0.1:8080`,
		"log: [a]":             "sluice.yaml:1: log: must be one value",
		"log: a\nlog: b":       "sluice.yaml:2: log: is set twice",
		"config: other.yaml":   "config: no such setting",
		"- listen":             "must be names with values",
		"warn-at: much":        `warn-at "much": want a number`,
	} {
		file := writeFile(t, dir, "sluice.yaml", text)
		var out strings.Builder
		if code := run(t.Context(), []string{"serve", "--config", file}, nil, &out, &out); code != exitTrouble || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit %d, want %s: %s", text, code, want, &out)
		}
	}
	t.Setenv("SLUICE_ACCESS_LOG", "perhaps")
	var out strings.Builder
	if code := run(t.Context(), []string{"serve"}, nil, &out, &out); code != exitTrouble || !strings.Contains(out.String(), `serve: SLUICE_ACCESS_LOG "perhaps": want true or false`) {
		t.Errorf("exit %d: %s", code, &out)
	}
}

func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if code := run(t.Context(), []string{"man", dir}, nil, &out, &out); code != exitDone {
		t.Fatalf("exit %d: %s", code, &out)
	}
	everyCommand(func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, "sluice-"+strings.ReplaceAll(path(cmd), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), ".TH") {
			t.Errorf("%s: %v\n%s", path(cmd), err, page)
		}
	})
}
