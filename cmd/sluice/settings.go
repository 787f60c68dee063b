package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// A setting is a flag that can also stand in the environment, as SLUICE_ and
// its name in capitals (SLUICE_ADMIN_LISTEN), and in a file in YAML, under its
// name. A flag overrides the environment, which overrides the file.
const settingMark = "setting"

func isSetting(f *pflag.Flag) bool {
	_, marked := f.Annotations[settingMark]
	return marked
}

// variable returns the environment variable of a setting.
func variable(name string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// settings adds to f the flags that define defines, as settings, and the flag
// --config.
func settings(f *pflag.FlagSet, define ...func(*pflag.FlagSet)) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	for _, d := range define {
		d(own)
	}
	own.String("config", "", "YAML `file` of settings")
	own.VisitAll(func(s *pflag.Flag) {
		s.Usage += " [" + variable(s.Name) + "]"
		s.Annotations = map[string][]string{settingMark: nil}
		f.AddFlag(s)
	})
}

// settle sets the settings of a command that were not given as flags, from the
// environment and from the file.
func settle(cmd *cobra.Command, _ []string) (err error) {
	set := func(f *pflag.Flag, value, from string) error {
		if f == nil || f.Changed || !isSetting(f) {
			return nil
		}
		f.Changed = true
		if err := f.Value.Set(value); err != nil {
			return badValue(cmd, f, from, value, err)
		}
		return nil
	}
	for old, now := range renamed {
		if _, set := os.LookupEnv(variable(old)); set && cmd.Flags().Lookup(now) != nil {
			return wrong(cmd, "%s: is now called %s", variable(old), variable(now))
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if value, ok := os.LookupEnv(variable(f.Name)); ok {
			err = cmp.Or(err, set(f, value, variable(f.Name)))
		}
	})
	config := cmd.Flags().Lookup("config")
	if err != nil || config == nil || config.Value.String() == "" {
		return err
	}
	file := config.Value.String()
	all, err := readSettings(file)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.name == "config" || !known(cmd.Root(), s.name) {
			what := "no such setting"
			if now := renamed[s.name]; now != "" {
				what = "is now called " + now
			}
			return fmt.Errorf("%s:%d: %s: %s; see sluice help %s", file, s.line, s.name, what, path(cmd))
		}
		if err := set(cmd.Flags().Lookup(s.name), s.value, fmt.Sprintf("%s:%d: %s", file, s.line, s.name)); err != nil {
			return err
		}
	}
	return nil
}

// renamed has the settings that once had another name.
var renamed = map[string]string{"lease": "hold"}

// known reports whether a command, or one below it, has a setting of that
// name. One file can serve several commands.
func known(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && isSetting(f) || slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return known(c, name) })
}

// maxSettings is the largest file of settings, in bytes.
const maxSettings = 1 << 20

type setting struct {
	name, value string
	line        int
}

// readSettings reads a file of names and values.
func readSettings(path string) ([]setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if len(text) > maxSettings {
		return nil, fmt.Errorf("settings: %s: must be at most %d bytes long", path, maxSettings)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("settings: %s: %w", path, err)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: must be names with values, such as \"listen: 127.0.0.1:8080\"", path, top.Line)
	}
	var all []setting
	seen := map[string]bool{}
	for i := 0; i < len(top.Content); i += 2 {
		name, value := top.Content[i], top.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s:%d: %s: must be one value", path, value.Line, name.Value)
		}
		if seen[name.Value] {
			return nil, fmt.Errorf("%s:%d: %s: is set twice", path, name.Line, name.Value)
		}
		seen[name.Value] = true
		all = append(all, setting{name.Value, value.Value, name.Line})
	}
	return all, nil
}

// secret reads what must not stand on a command line: from a file, or as it is.
func secret(value string) (string, error) {
	path, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	s := strings.TrimSpace(string(text))
	if s == "" {
		return "", errors.New("secret: " + path + " is empty")
	}
	return s, nil
}
