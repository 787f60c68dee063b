// Command sluice limits rates: as a server that other programs ask.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // calendar quotas work where no zone database is installed
)

const help = `Sluice limits rates: never over the limit.

Usage:
  sluice serve [--listen address]   answer takes over HTTP
  sluice version                    print the version
  sluice help [command]             print this, or more about a command

Examples:
  sluice serve
  sluice serve --listen 127.0.0.1:9090
`

// Exit codes: 1 is trouble at work, 2 a mistake in how sluice was called.
const (
	exitTrouble = 1
	exitUsage   = 2
)

// usageError is a mistake in how sluice was called.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole command; it answers the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, help) //nolint:errcheck // nowhere to report it
		return exitUsage
	}
	err := command(ctx, args[0], args[1:], stdout, stderr)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "sluice:", err) //nolint:errcheck // nowhere to report it
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		return exitUsage
	}
	return exitTrouble
}

func command(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	switch name {
	case "serve":
		return serve(ctx, args, stdout, stderr)
	case "version", "--version":
		return version(args, stdout)
	case "help", "-h", "-help", "--help":
		return helpOn(args, stdout)
	}
	return &usageError{fmt.Sprintf("unknown command %q; see sluice help", name)}
}

func helpOn(args []string, stdout io.Writer) error {
	text := help
	switch {
	case len(args) > 1:
		return &usageError{fmt.Sprintf("help takes one command, not %q", args)}
	case len(args) == 1 && args[0] == "serve":
		text = serveHelp
	case len(args) == 1 && args[0] == "version":
		text = versionHelp
	case len(args) == 1 && args[0] != "help":
		return &usageError{fmt.Sprintf("unknown command %q; see sluice help", args[0])}
	}
	_, err := io.WriteString(stdout, text)
	return err
}

// parse reads a command's flags. It reports whether the caller asked for help
// instead, which has then been printed.
func parse(flags *flag.FlagSet, args []string, help string, stdout io.Writer) (helped bool, err error) {
	flags.SetOutput(io.Discard) // errors are reported in one place, by run
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, help)
		return true, err
	case err != nil:
		return false, &usageError{fmt.Sprintf("%s: %v; see sluice help %s", flags.Name(), err, flags.Name())}
	case flags.NArg() > 0:
		return false, &usageError{fmt.Sprintf("%s: unexpected argument %q; see sluice help %s", flags.Name(), flags.Arg(0), flags.Name())}
	}
	return false, nil
}
