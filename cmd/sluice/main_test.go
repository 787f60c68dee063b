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
		{"", 2, "", "Commands:"},
		{"help", 0, "\n  limits ", ""},
		{"--help", 0, "Exit codes:", ""},
		{"-h", 0, "Commands:", ""},
		{"help help", 0, "Usage: sluice help [COMMAND...]", ""},
		{"help serve", 0, "POST /v1/take", ""},
		{"help version", 0, "Usage: sluice version", ""},
		{"help limits", 0, "\n  plan ", ""},
		{"help limits plan", 0, "Usage: sluice limits plan FILE [flags]", ""},
		{"limits plan --help", 0, "Usage: sluice limits plan FILE [flags]", ""},
		{"limits plan x -h", 0, "Usage: sluice limits plan FILE [flags]", ""},
		{"limits --help", 0, "Usage: sluice limits COMMAND", ""},
		{"limits", 2, "", "Usage: sluice limits COMMAND"},
		{"help slots plan set", 0, "--max-per-window number", ""},
		{"help limits plan x", 2, "", `limits plan: unknown command "x"`},
		{"help dance", 2, "", `unknown command "dance"; see sluice help`},
		{"dance", 2, "", `sluice: unknown command "dance"; see sluice help`},
		{"tkae", 2, "", `unknown command "tkae"; did you mean "take"?`},
		{"limits aply", 2, "", `limits: unknown command "aply"; did you mean "apply"?; see sluice help limits`},
		{"ent", 2, "", `did you mean "entity"?`},
		{"--listen :1", 2, "", "unknown flag: --listen; see sluice help"},
		{"take", 2, "", "take: ENTITY is missing; see sluice help take"},
		{"peek", 2, "", "peek: ENTITY is missing; see sluice help peek"},
		{"peek a b c", 2, "", `peek: unexpected argument "c"`},
		{"system set", 2, "", "system set: NAME=RULE is missing"},
		{"take alice --cots 3", 2, "", "take: unknown flag: --cots; see sluice help take"},
		{"take alice --cost", 2, "", "take: flag needs an argument: --cost"},
		{"take alice --cost much", 2, "", `take: --cost "much": want an amount such as 3`},
		{"take alice --priority high", 2, "", `take: --priority "high": want interactive, normal or batch; see sluice help take`},
		{"take alice -cost 3", 2, "", "take: unknown flag: -cost; want two dashes: --cost"},
		{"slots load --bars many", 2, "", `slots load: --bars "many": want a whole number`},
		{"take alice --json=perhaps", 2, "", `take: --json "perhaps": want true or false`},
		{"serve --admin-token short --catalog /nowhere/x", 2, "", "serve: --admin-token: must be at least 16 bytes long"},
		{"serve --warn-at 150 --listen 127.0.0.1:0", 2, "", "sluice: --warn-at: 150: must be above 0"},
		{"explain --path / --tier pro", 2, "", "explain: --tier: does not go with --path"},
		{"explain --path / --cost 3", 2, "", "explain: --cost: does not go with --path"},
		{"explain alice --method POST", 2, "", "explain: --method: needs --path"},
		{"take alice --wait 2m", 2, "", "--wait 2m0s: want at most 1m"},
		{"take alice --server nonsense", 2, "", `--server "nonsense": want an address such as http://127.0.0.1:8080`},
		{"take alice --server http://127.0.0.1:1", 2, "", "http://127.0.0.1:1 does not answer"},
		{"take alice --token @/nowhere", 2, "", "/nowhere"},
		{"version", 0, "go1.", ""},
		{"--version", 0, "go1.", ""},
		{"version --json", 0, `"go": "go1.`, ""},
		{"version --help", 0, "Usage: sluice version", ""},
		{"version now", 2, "", `version: unexpected argument "now"`},
		{"policy schema", 0, `"$schema"`, ""},
		{"completion tcsh", 2, "", `"tcsh": want bash, zsh or fish`},
		{"serve --help", 0, "--listen address", ""},
		{"serve --port 80", 2, "", "serve: unknown flag: --port; see sluice help serve"},
		{"serve here", 2, "", `serve: unexpected argument "here"`},
		{"serve --listen", 2, "", "flag needs an argument"},
		{"serve --listen 8080", 2, "", `--listen "8080": want an address such as 127.0.0.1:8080`},
		{"--access-log serve --listen=", 2, "", `--listen "": want an address such as 127.0.0.1:8080`},
		{"gateway", 2, "", "gateway: --upstream is missing"},
		{"serve --listen 127.0.0.1:99999", 2, "", "invalid port"},
		{"gateway --help", 0, "--upstream URL", ""},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), nil, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("sluice %s: exit %d\nstdout: %s\nstderr: %s", c.args, code, &stdout, &stderr)
		}
		if (c.stdout == "") != (stdout.Len() == 0) || (c.stderr == "") != (stderr.Len() == 0) {
			t.Errorf("sluice %s: output on the wrong side\nstdout: %s\nstderr: %s", c.args, &stdout, &stderr)
		}
	}
}
