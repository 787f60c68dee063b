// Command sluice limits rates: as a server that other programs ask, as a
// gateway in front of an API, and as the command line for both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // calendar quotas work where no zone database is installed
)

// Exit codes. A script can tell "no" from "I could not find out".
const (
	exitDone    = 0 // allowed, or done
	exitRefused = 1 // a limit refused, or diff found differences
	exitTrouble = 2 // wrong usage, no server, an error
)

// usageError is a mistake in how sluice was called.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

// errRefused ends a command whose answer was no. The answer has been printed.
var errRefused = errors.New("refused")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole command; it answers the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runIn(ctx, &console{stdin: os.Stdin, stdout: stdout, stderr: stderr, lookup: os.LookupEnv}, args)
}

// console is what a command can see of the world.
type console struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookup         func(string) (string, bool) // the environment
}

func runIn(ctx context.Context, c *console, args []string) int {
	err := dispatch(ctx, c, root(), args)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errRefused):
		return exitRefused
	case errors.Is(err, errSilent):
		return exitTrouble
	}
	fmt.Fprintln(c.stderr, "sluice:", err) //nolint:errcheck // nowhere to report it
	return exitTrouble
}

// errSilent ends a command with trouble that has been printed.
var errSilent = errors.New("trouble")
