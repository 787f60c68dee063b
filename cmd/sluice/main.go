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
	"strings"
	"syscall"
	_ "time/tzdata" // calendar quotas work where no zone database is installed

	"github.com/spf13/cobra"
)

// Exit codes. A script can tell "no" from "I could not find out".
const (
	exitDone    = 0 // allowed, or done
	exitRefused = 1 // a limit refused, or diff found differences
	exitTrouble = 2 // wrong usage, no server, an error
)

// errRefused ends a command whose answer was no. The answer has been printed.
var errRefused = errors.New("refused")

// errSilent ends a command with trouble that has been printed.
var errSilent = errors.New("trouble")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the command that args name, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	top := root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		every(top, plainUsage)
	}
	top.SetArgs(explicit(top, args))
	top.SetIn(stdin)
	top.SetOut(stdout)
	top.SetErr(stderr)
	switch err := top.ExecuteContext(ctx); {
	case err == nil:
		return exitDone
	case errors.Is(err, errRefused):
		return exitRefused
	case errors.Is(err, errSilent):
		return exitTrouble
	default:
		fmt.Fprintln(stderr, "sluice:", byFlag(err)) //nolint:errcheck // nowhere to report it
		return exitTrouble
	}
}
