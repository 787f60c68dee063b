package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// asCommand in the environment makes the test binary be sluice itself.
const asCommand = "SLUICE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"", 2, "", "Usage:"},
		{"help", 0, "sluice serve [--listen address]", ""},
		{"--help", 0, "Usage:", ""},
		{"-h", 0, "Usage:", ""},
		{"help help", 0, "Usage:", ""},
		{"help serve", 0, "POST /v1/take", ""},
		{"help version", 0, "sluice version", ""},
		{"help a b", 2, "", "help takes one command"},
		{"help dance", 2, "", `unknown command "dance"; see sluice help`},
		{"dance", 2, "", `sluice: unknown command "dance"; see sluice help`},
		{"--listen :1", 2, "", `unknown command "--listen"`},
		{"version", 0, "go1.", ""},
		{"--version", 0, "go1.", ""},
		{"version --help", 0, "Usage: sluice version", ""},
		{"version now", 2, "", `version: unexpected argument "now"`},
		{"serve --help", 0, "--listen address", ""},
		{"serve --port 80", 2, "", "serve: flag provided but not defined: -port; see sluice help serve"},
		{"serve here", 2, "", `serve: unexpected argument "here"`},
		{"serve --listen", 2, "", "flag needs an argument"},
		{"serve --listen 8080", 2, "", `--listen "8080": want an address such as 127.0.0.1:8080`},
		{"serve --listen 127.0.0.1:99999", 1, "", "invalid port"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("sluice %s: exit %d\nstdout: %s\nstderr: %s", c.args, code, &stdout, &stderr)
		}
		if (c.stdout == "") != (stdout.Len() == 0) || (c.stderr == "") != (stderr.Len() == 0) {
			t.Errorf("sluice %s: output on the wrong side\nstdout: %s\nstderr: %s", c.args, &stdout, &stderr)
		}
	}
}
