package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// call is one run of a command.
type call struct {
	connection
	cmd            *cobra.Command
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool
}

// arg returns the nth argument, or "" if there are fewer.
func (c *call) arg(n int) string {
	if n < len(c.args) {
		return c.args[n]
	}
	return ""
}

// said reports whether a flag was given.
func (c *call) said(name string) bool { return c.cmd.Flags().Changed(name) }

// wrong returns an error about how the command was called.
func (c *call) wrong(format string, args ...any) error { return wrong(c.cmd, format, args...) }

// branch makes cmd a group of commands.
func branch(cmd *cobra.Command, of ...*cobra.Command) *cobra.Command {
	cmd.Use += " COMMAND"
	cmd.DisableFlagsInUseLine = true
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(of...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return errSilent
	}
	return cmd
}

// online makes cmd a command that asks a server.
func online(cmd *cobra.Command, define func(*pflag.FlagSet), run func(context.Context, *call) error) *cobra.Command {
	var to connection
	offline(cmd, define, func(ctx context.Context, c *call) error {
		c.connection = to
		if err := c.open(c.json); err != nil {
			return fmt.Errorf("%s: %w", path(cmd), err)
		}
		return c.trouble(run(ctx, c))
	})
	settings(cmd.Flags(), to.define)
	return cmd
}

// offline makes cmd a command that asks no server.
func offline(cmd *cobra.Command, define func(*pflag.FlagSet), run func(context.Context, *call) error) *cobra.Command {
	var json bool
	cmd.Flags().SortFlags = false
	if define != nil {
		define(cmd.Flags())
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return run(cmd.Context(), &call{
			cmd: cmd, args: args, stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), json: json,
		})
	}
	return cmd
}

// flags returns a function that defines the flags of several, nil ones apart.
func flags(define ...func(*pflag.FlagSet)) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		for _, d := range define {
			if d != nil {
				d(f)
			}
		}
	}
}

// arguments checks arguments against the words that follow the command's name
// in its Use: one in brackets may be left out, one with dots may be repeated.
func arguments(cmd *cobra.Command, args []string) error {
	least, most := 0, 0
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if !strings.HasPrefix(word, "[") {
			if least++; len(args) < least {
				return wrong(cmd, "%s is missing", strings.TrimSuffix(word, "..."))
			}
		}
		if most++; strings.Contains(word, "...") {
			return nil
		}
	}
	if len(args) > most {
		return wrong(cmd, "unexpected argument %q", args[most])
	}
	return nil
}

// explicit writes --flag as --flag=true where the flag is a boolean, so that
// cobra does not take the command after it for its value.
func explicit(top *cobra.Command, args []string) []string {
	switches, valued := map[string]bool{}, map[string]bool{}
	every(top, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switches["--"+f.Name] = switches["--"+f.Name] || f.NoOptDefVal != ""
			valued["--"+f.Name] = valued["--"+f.Name] || f.NoOptDefVal == ""
		})
	})
	all := append([]string{}, args...)
	for i := 0; i < len(all) && all[i] != "--" && !strings.HasPrefix(all[i], cobra.ShellCompRequestCmd); i++ {
		switch {
		case valued[all[i]]:
			i++
		case switches[all[i]]:
			all[i] += "=true"
		}
	}
	return all
}

// every calls visit with a command and all below it.
func every(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		every(c, visit)
	}
}
