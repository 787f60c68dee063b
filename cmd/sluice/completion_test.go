package main

import (
	"bytes"
	"io"
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
	if code := run(t.Context(), []string{"completion", shell}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	return stdout.String()
}

// What shells show of a flag has no backquotes.
func TestCompletionIsPlain(t *testing.T) {
	var out strings.Builder
	if code := run(t.Context(), []string{"__complete", "take", "--wa"}, nil, &out, io.Discard); code != exitDone ||
		!strings.Contains(out.String(), "--wait\twait in line for this duration, at most 1m\n") {
		t.Errorf("exit %d: %s", code, &out)
	}
}

// bash itself completes command lines with the script.
func TestCompletionInBash(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "limits.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "bin/sluice", "#!/bin/sh\nexec "+os.Args[0]+` "$@"`+"\n")
	if err := os.Chmod(filepath.Join(dir, "bin/sluice"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(asCommand, "1")
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
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
		{"sluice take alice --priority ", []string{"interactive", "normal", "batch"}, "limits.yaml"},
		{"sluice take alice --batch ", []string{"limits.yaml"}, "normal"},
		{"sluice take ", []string{}, "limits.yaml"},
		{"sluice help limits ", []string{"plan", "apply"}, "take"},
	} {
		fields := strings.Split(c.line, " ")
		var quotedWords []string
		for _, f := range fields {
			quotedWords = append(quotedWords, "'"+f+"'")
		}
		command := exec.CommandContext(t.Context(), "bash", "--norc", "-c", script+`
COMP_WORDS=(`+strings.Join(quotedWords, " ")+`)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_LINE="${COMP_WORDS[*]}"
COMP_POINT=${#COMP_LINE}
# What the package bash-completion has.
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
# What bash does: without an answer it completes files, unless told not to.
type() { echo builtin; }
compopt() { [[ $* != *"+o default"* ]] || files=no; }
__start_sluice
if ((${#COMPREPLY[@]} == 0)) && [[ -z $files ]]; then COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); fi
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

func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "#compdef sluice", "fish": "complete -c sluice"} {
		if script := completionScript(t, shell); !strings.Contains(script, want) || !strings.Contains(script, "__complete") {
			t.Errorf("%s: got\n%s", shell, script)
		}
	}
}
