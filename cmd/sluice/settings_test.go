package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettingsThatWereRenamed are not ignored in silence.
func TestSettingsThatWereRenamed(t *testing.T) {
	serve := func(args ...string) string {
		var out strings.Builder
		if code := run(t.Context(), append([]string{"serve", "--listen", "127.0.0.1:0", "--catalog", filepath.Join(t.TempDir(), "db")}, args...), nil, &out, &out); code != exitTrouble {
			t.Errorf("exit %d", code)
		}
		return out.String()
	}
	dir := t.TempDir()
	writeFile(t, dir, "settings.yaml", "lease: false\n")
	if got := serve("--config", filepath.Join(dir, "settings.yaml")); !strings.Contains(got, "settings.yaml:1: lease: is now called hold") {
		t.Error(got)
	}
	if got := serve("--" + "lease=false"); !strings.Contains(got, "is now called --hold") {
		t.Error(got)
	}
	t.Setenv("SLUICE_LEASE", "false")
	if got := serve(); !strings.Contains(got, "serve: SLUICE_LEASE: is now called SLUICE_HOLD") {
		t.Error(got)
	}
	var out strings.Builder
	if code := run(t.Context(), []string{"version"}, nil, &out, &out); code != exitDone {
		t.Errorf("version: exit %d: %s", code, &out)
	}
}

// TestSettingsWithoutEffect are refused before anything listens, with what would
// be right.
func TestSettingsWithoutEffect(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "file", "x")
	for want, flags := range map[string][]string{
		"--store-ca: is for a --store of Redis":                          {"--store-ca", file},
		"--store-conns: is for a --store of Redis":                       {"--store-conns", "4", "--store", "memory"},
		"--replays-ca: is about --replays":                               {"--replays-ca", file},
		"--memory-bytes: is for a --store in memory, and it is redis://": {"--memory-bytes", "1000000000", "--store", "redis://127.0.0.1:1"},
		"are about --alarm-webhook":                                      {"--alarm-secret", "0123456789abcdef"},
		"only this machine or network":                                   {"--alarm-webhook", "http://10.1.2.3/"},
		"--audit-keep: is about --audit-archive":                         {"--audit-keep", "30d"},
		"--audit-keep: 1h0m0s: must be a day":                            {"--audit-keep", "1h", "--audit-archive", dir},
		"must be a folder":                                               {"--audit-archive", file},
		"--memory-buckets: must be above 0":                              {"--memory-buckets", "0"},
		"--process-memory: must be at least 67108864":                    {"--process-memory", "1"},
		"--admin-listen 0.0.0.0:0 is reachable from other machines":      {"--admin-listen", "0.0.0.0:0"},
	} {
		for _, command := range [][]string{{"serve"}, {"gateway", "--upstream", "http://127.0.0.1:1"}} {
			if command[0] == "gateway" && (strings.Contains(flags[0], "audit") || strings.Contains(flags[0], "admin")) {
				continue
			}
			var out, errs strings.Builder
			args := append(append(command, "--listen", "127.0.0.1:0", "--catalog", filepath.Join(t.TempDir(), "db")), flags...)
			if code := run(t.Context(), args, nil, &out, &errs); code != exitTrouble || !strings.Contains(errs.String(), want) || out.String() != "" {
				t.Errorf("%v: exit %d: %s%s, want %q", args, code, &out, &errs, want)
			}
		}
	}
}

// TestHintsThatCanBeTyped: a hint names the namespace of the policy, and a lease
// of what is unlimited has no id to print.
func TestHintsThatCanBeTyped(t *testing.T) {
	dir := t.TempDir()
	policy := writeFile(t, dir, "policy.yaml", "version: 1\nnamespace: shop\ntiers: {all: {default: unlimited}}\ndefault_tier: all\nlimits: {api: {per: caller}}\n")
	p := begin(t, "gateway", "--upstream", "http://127.0.0.1:1", "--admin-listen", "127.0.0.1:0", "--policy", policy, "--catalog", filepath.Join(dir, "a.db"))
	if !strings.Contains(p.greeting, "sluice top --server http://"+p.admin+" --namespace shop\n") {
		t.Error(p.greeting)
	}
	p = begin(t, "serve", "--policy", policy, "--catalog", filepath.Join(dir, "b.db"))
	var out strings.Builder
	run(t.Context(), []string{"namespace", "create", "shop", "--server", p.url()}, nil, &out, &out)
	out.Reset()
	if code := run(t.Context(), []string{"lease", "acquire", "alice", "api", "--namespace", "shop", "--server", p.url()}, nil, &out, &out); code != exitDone || out.String() != "allowed\n" {
		t.Errorf("exit %d: %q", code, out.String())
	}
	out.Reset()
	if code := run(t.Context(), []string{"explain", "alice", "api", "--namespace", "shop", "--server", p.url()}, nil, &out, &out); code != exitDone || strings.Contains(out.String(), "000") {
		t.Errorf("exit %d: %s", code, &out)
	}
}

// TestTheGreetingsCommandsWork runs what serve says to try next, as it says it,
// also with a policy that has no limit for what it takes.
func TestTheGreetingsCommandsWork(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nlimits: {logins: {per: ip, limit: 5/minute}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"--policy", policy}} {
		p := begin(t, append([]string{"serve", "--catalog", filepath.Join(t.TempDir(), "a.db")}, flags...)...)
		tried := 0
		for line := range strings.Lines(p.greeting) {
			command, ok := strings.CutPrefix(line, "  curl ")
			if !ok {
				continue
			}
			tried++
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", "curl -sS --fail-with-body "+command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", command, err, out)
			}
		}
		if tried != 3 {
			t.Errorf("%d commands to try, want 3:\n%s", tried, p.greeting)
		}
	}
}
