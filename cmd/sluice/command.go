package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// command is one word of the command line: something to run, or a group of
// commands. Help and shell completion are made of the same table.
type command struct {
	name     string
	args     string // what follows, for people and to check by: "ENTITY [RESOURCE]", "FILE..."
	summary  string // in lists: one line
	about    string // the rest of its help
	examples []string

	sub []*command // of a group

	flags   func(*flag.FlagSet)
	offline bool // it talks to no server
	run     func(context.Context, *call) error

	// serve and gateway read their own flags and have their own help.
	help string
	raw  func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// call is a command with everything that was said.
type call struct {
	*console
	connection
	path  string // "limits plan"
	args  []string
	flags *flag.FlagSet
	json  bool
}

// arg is the nth argument, or "" if there are fewer.
func (c *call) arg(n int) string {
	if n < len(c.args) {
		return c.args[n]
	}
	return ""
}

// said reports whether a flag was given.
func (c *call) said(name string) (yes bool) {
	c.flags.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}

// wrong is a mistake in how the command was called.
func (c *call) wrong(format string, args ...any) error {
	return &usageError{fmt.Sprintf("%s: %s; see sluice help %s", c.path, fmt.Sprintf(format, args...), c.path)}
}

// find is the command of that name in a group.
func (c *command) find(name string) *command {
	for _, s := range c.sub {
		if s.name == name {
			return s
		}
	}
	return nil
}

// dispatch finds the command that args name, and runs it.
func dispatch(ctx context.Context, con *console, top *command, args []string) error {
	at, path := top, []string(nil)
	for at.sub != nil {
		switch {
		case len(args) == 0:
			fmt.Fprint(con.stderr, at.helpText(path)) //nolint:errcheck // nowhere to report it
			return errSilent
		case isHelp(args[0]):
			_, err := io.WriteString(con.stdout, at.helpText(path))
			return err
		case args[0] == "help" && at == top:
			return printHelp(top, args[1:], con.stdout)
		case args[0] == "--version" && at == top:
			args[0] = "version"
		}
		next := at.find(args[0])
		if next == nil {
			return unknown(at, path, args[0])
		}
		at, path, args = next, append(path, args[0]), args[1:]
	}
	if at.raw != nil {
		return at.raw(ctx, args, con.stdout, con.stderr)
	}
	c := &call{console: con, path: strings.Join(path, " ")}
	c.flags = at.flagSet(c)
	if err := c.read(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, err = io.WriteString(con.stdout, at.helpText(path))
		}
		return err
	}
	if err := at.checkArgs(c); err != nil {
		return err
	}
	if !at.offline {
		if err := c.connection.fill(c.lookup); err != nil {
			return fmt.Errorf("%s: %w", c.path, err)
		}
		c.recorder.on = c.json
	}
	return at.run(ctx, c)
}

func isHelp(word string) bool { return word == "-h" || word == "-help" || word == "--help" }

// flagSet has all flags of a command: its own, and those that all have.
func (c *command) flagSet(to *call) *flag.FlagSet {
	f := flag.NewFlagSet(to.path, flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are reported in one place, by run
	if c.flags != nil {
		c.flags(f)
	}
	f.BoolVar(&to.json, "json", false, "print JSON")
	if !c.offline {
		to.connection.define(f)
	}
	return f
}

// read takes flags and arguments apart. Flags may stand anywhere before "--".
func (c *call) read(args []string) error {
	for len(args) > 0 {
		if err := c.flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return err
			}
			return c.wrong("%s", dashes(err.Error()))
		}
		rest := c.flags.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			c.args = append(c.args, rest...)
			return nil
		}
		if len(rest) == 0 {
			return nil
		}
		c.args, args = append(c.args, rest[0]), rest[1:]
	}
	return nil
}

// dashes writes flags as the help does, where package flag writes one dash.
func dashes(message string) string {
	for _, before := range []string{"defined: -", "for flag -", "argument: -"} {
		message = strings.Replace(message, before, before+"-", 1)
	}
	return message
}

// checkArgs compares the arguments with what the command wants.
func (c *command) checkArgs(to *call) error {
	least, most := 0, 0
	for _, word := range strings.Fields(c.args) {
		if !strings.HasPrefix(word, "[") {
			if least++; len(to.args) < least {
				return to.wrong("%s is missing", strings.TrimSuffix(word, "..."))
			}
		}
		if most++; strings.Contains(word, "...") {
			return nil
		}
	}
	if len(to.args) > most {
		return to.wrong("unexpected argument %q", to.args[most])
	}
	return nil
}

// parse reads the flags of serve and gateway, which take no arguments. It
// reports whether the caller asked for help instead, which has then been
// printed.
func parse(flags *flag.FlagSet, args []string, help string, stdout io.Writer) (helped bool, err error) {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, help)
		return true, err
	case err != nil:
		return false, &usageError{fmt.Sprintf("%s: %s; see sluice help %s", flags.Name(), dashes(err.Error()), flags.Name())}
	case flags.NArg() > 0:
		return false, &usageError{fmt.Sprintf("%s: unexpected argument %q; see sluice help %s", flags.Name(), flags.Arg(0), flags.Name())}
	}
	return false, nil
}
