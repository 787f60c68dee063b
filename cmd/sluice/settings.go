package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Every flag of serve and gateway may also stand in the environment, as
// SLUICE_ and its name in capitals (SLUICE_ADMIN_LISTEN), and in a file in
// YAML, under its name. A flag beats the environment, which beats the file.

// environment is the variable of a flag.
func environment(name string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// maxSettings is the largest file of settings, in bytes.
const maxSettings = 1 << 20

// configure parses the flags of a command that has a --config flag, and fills
// in from the environment and from the file what they do not say.
func configure(flags *flag.FlagSet, args []string, help string, stdout io.Writer, lookup func(string) (string, bool)) (helped bool, err error) {
	if helped, err := parse(flags, args, help, stdout); helped || err != nil {
		return helped, err
	}
	said := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { said[f.Name] = true })
	set := func(f *flag.Flag, value, from string) {
		if said[f.Name] || err != nil {
			return
		}
		said[f.Name] = true
		if wrong := flags.Set(f.Name, value); wrong != nil {
			err = &usageError{fmt.Sprintf("%s: %s: %q: %v; see sluice help %s", flags.Name(), from, value, wrong, flags.Name())}
		}
	}
	flags.VisitAll(func(f *flag.Flag) {
		if value, ok := lookup(environment(f.Name)); ok {
			set(f, value, environment(f.Name))
		}
	})
	file := flags.Lookup("config").Value.String()
	if err != nil || file == "" {
		return false, err
	}
	settings, err := readSettings(file)
	if err != nil {
		return false, err
	}
	for _, s := range settings {
		f := flags.Lookup(s.name)
		if f == nil || s.name == "config" {
			return false, fmt.Errorf("%s:%d: %s: no such setting; see sluice help %s", file, s.line, s.name, flags.Name())
		}
		set(f, s.value, fmt.Sprintf("%s:%d: %s", file, s.line, s.name))
	}
	return false, err
}

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
			return nil, fmt.Errorf("%s:%d: %s: is there twice", path, name.Line, name.Value)
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
