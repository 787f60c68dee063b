package main

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return offline(&cobra.Command{
		Use: "version", Short: "print the versions of sluice and Go, and the revision",
		Example: `sluice version
sluice version --json`,
	}, nil, func(_ context.Context, c *call) error {
		return c.print(built(), built().String()+"\n")
	})
}

// build is what this binary was made of.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go,omitempty"`
	Revision string `json:"revision,omitempty"`
}

func built() build {
	b := build{Version: "of unknown version"}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version, b.Go = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}

func (b build) String() string {
	line := "sluice " + b.Version
	if b.Go != "" {
		line += ", " + b.Go
	}
	if b.Revision != "" {
		line += ", revision " + b.Revision
	}
	return line
}
