package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

func versionCommand() *command {
	return &command{
		name: "version", summary: "print the version, that of Go, and the revision",
		offline: true, examples: []string{"sluice version", "sluice version --json"},
		run: version,
	}
}

func version(_ context.Context, c *call) error {
	built := struct {
		Version  string `json:"version"`
		Go       string `json:"go,omitempty"`
		Revision string `json:"revision,omitempty"`
	}{Version: "of unknown version"}
	if info, ok := debug.ReadBuildInfo(); ok {
		built.Version, built.Go = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				built.Revision = s.Value
			}
		}
	}
	if c.json {
		return c.printJSON(built)
	}
	line := "sluice " + built.Version
	if built.Go != "" {
		line += ", " + built.Go
	}
	if built.Revision != "" {
		line += ", revision " + built.Revision
	}
	_, err := fmt.Fprintln(c.stdout, line)
	return err
}
