package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func completionScript(t *testing.T, shell string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"completion", shell}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	return stdout.String()
}

// bash itself completes command lines with the script.
func TestCompletionInBash(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "limits.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	script := completionScript(t, "bash")
	for _, c := range []struct {
		line string
		want []string // among others
		not  string
	}{
		{"sluice t", []string{"take", "tier", "top"}, "peek"},
		{"sluice ", []string{"serve", "gateway", "take", "help", "completion"}, "plan"},
		{"sluice limits ", []string{"plan", "diff", "apply", "list"}, "take"},
		{"sluice limits plan l", []string{"limits.yaml"}, "list"},
		{"sluice limits plan --n", []string{"--name", "--namespace"}, "--token"},
		{"sluice slots plan s", []string{"set"}, "status"},
		{"sluice slots plan set mail --win", []string{"--window"}, "--max-per-window"},
		{"sluice take alice --cost 3 --w", []string{"--wait"}, "--cost"},
		{"sluice serve --tls", []string{"--tls-cert", "--tls-key", "--tls-client-ca"}, "--listen"},
		{"sluice completion z", []string{"zsh"}, "bash"},
	} {
		fields := strings.Split(c.line, " ")
		var quotedWords []string
		for _, f := range fields {
			quotedWords = append(quotedWords, quoted(f))
		}
		command := exec.CommandContext(t.Context(), "bash", "--norc", "-c", script+`
COMP_WORDS=(`+strings.Join(quotedWords, " ")+`)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_sluice
printf '%s\n' "${COMPREPLY[@]}"`)
		command.Dir = dir
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.line, err, out)
		}
		got := strings.Fields(string(out))
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q is not among %q", c.line, want, got)
			}
		}
		if slices.Contains(got, c.not) {
			t.Errorf("%s: %q is among %q", c.line, c.not, got)
		}
	}
}

// All scripts have all commands and flags of the table.
func TestCompletionHasEverything(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := completionScript(t, shell)
		everyCommand(root(), nil, func(c *command, path []string) {
			if !strings.Contains(script, strings.Join(path, " ")) {
				t.Errorf("%s: %s is missing", shell, strings.Join(path, " "))
			}
		})
		for _, flag := range []string{"--max-per-window", "--namespace", "--grpc-listen", "--upstream"} {
			if !strings.Contains(script, flag) {
				t.Errorf("%s: %s is missing", shell, flag)
			}
		}
	}
}
