package main

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
)

const versionHelp = `Usage: sluice version

Prints the version, that of Go, and the revision it was built from if known.
`

func version(args []string, stdout io.Writer) error {
	if helped, err := parse(flag.NewFlagSet("version", flag.ContinueOnError), args, versionHelp, stdout); helped || err != nil {
		return err
	}
	line := "sluice, of unknown version"
	if info, ok := debug.ReadBuildInfo(); ok {
		line = fmt.Sprintf("sluice %s, %s", info.Main.Version, info.GoVersion)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				line += ", revision " + s.Value
			}
		}
	}
	_, err := fmt.Fprintln(stdout, line)
	return err
}
