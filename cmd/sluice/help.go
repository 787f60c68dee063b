package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const helpEnd = `
Exit codes:
  0  allowed, or done
  1  refused by a limit; for limits diff: there are differences
  2  an error: wrong usage, no answer, a mistake in a file

sluice help COMMAND has flags and examples. Commands that ask a server take
  --server URL, --token, --namespace and --json, or the environment variables
  SLUICE_SERVER, SLUICE_TOKEN and SLUICE_NAMESPACE.
`

// printHelp is the command help: about everything, or about one command.
func printHelp(top *command, path []string, w io.Writer) error {
	at := top
	if len(path) == 1 && path[0] == "help" {
		path = nil
	}
	for i, word := range path {
		next := at.find(word)
		if next == nil {
			return unknown(at, path[:i], word)
		}
		at = next
	}
	_, err := io.WriteString(w, at.helpText(path))
	return err
}

// helpText is everything there is to say about a command.
func (c *command) helpText(path []string) string {
	if c.help != "" {
		return c.help
	}
	var b strings.Builder
	words := strings.Join(append([]string{"sluice"}, path...), " ")
	switch {
	case len(path) == 0:
		b.WriteString(c.about)
	case c.sub != nil:
		fmt.Fprintf(&b, "Usage: %s COMMAND\n\n%s\n", words, c.long())
	default:
		fmt.Fprintf(&b, "Usage: %s [flags]\n\n%s\n", strings.TrimSpace(words+" "+c.args), c.long())
	}
	if c.sub != nil {
		b.WriteString("\nCommands:\n")
		width := 0
		for _, s := range c.sub {
			width = max(width, len(s.usage()))
		}
		for _, s := range c.sub {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, s.usage(), s.summary)
		}
	} else {
		to := &call{path: strings.Join(path, " ")}
		b.WriteString("\nFlags:\n")
		writeFlags(&b, c.flagSet(to))
	}
	if len(c.examples) > 0 {
		b.WriteString("\nExamples:\n")
		for _, e := range c.examples {
			b.WriteString("  " + e + "\n")
		}
	}
	if len(path) == 0 {
		b.WriteString(helpEnd)
	}
	return b.String()
}

// usage is a command in a list: its name and, of a group, what it has.
func (c *command) usage() string {
	if c.sub != nil {
		return c.name + " …"
	}
	return strings.TrimSpace(c.name + " " + c.args)
}

// long is what a command does: the line in lists, and more.
func (c *command) long() string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(sentence(c.summary)+" "+c.about), "\n\n") {
		if i > 0 {
			b.WriteString("\n\n")
		}
		if strings.HasPrefix(paragraph, "  ") { // as it is written
			b.WriteString(paragraph)
			continue
		}
		wrap(&b, strings.Fields(paragraph), 78)
	}
	return b.String()
}

// wrap writes words in lines.
func wrap(b *strings.Builder, words []string, width int) {
	used := 0
	for i, word := range words {
		n := len([]rune(word))
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
}

// sentence makes one of a line in a list.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// flagUsage takes the usage of a flag apart: "duration | how long it lives".
func flagUsage(f *flag.Flag) (value, about string) {
	if value, about, ok := strings.Cut(f.Usage, " | "); ok {
		return value, about
	}
	return "", f.Usage
}

// flagName is a flag as it is written.
func flagName(f *flag.Flag) string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// writeFlags lists flags in the order of their names, those that all commands
// have last.
func writeFlags(b *strings.Builder, flags *flag.FlagSet) {
	width := 0
	heads := map[string]string{}
	flags.VisitAll(func(f *flag.Flag) {
		value, _ := flagUsage(f)
		heads[f.Name] = strings.TrimSpace(flagName(f) + " " + value)
		width = max(width, len(heads[f.Name]))
	})
	write := func(common bool) {
		flags.VisitAll(func(f *flag.Flag) {
			if isConnection(f.Name) != common {
				return
			}
			_, about := flagUsage(f)
			fmt.Fprintf(b, "  %-*s  %s", width, heads[f.Name], about)
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
				fmt.Fprintf(b, " (default %s)", f.DefValue)
			}
			b.WriteByte('\n')
		})
	}
	write(false)
	write(true)
}
