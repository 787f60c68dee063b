package envoy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server/envoy"

	bench "github.com/sluice-go/sluice/bench/envoy"
)

// mistakes are files of which most are wrong, each in one way.
var mistakes = []string{
	"", "domain:", "domain: x", "hello", "- domain: x", "domain: [x]", "domain: {}", "domain: x\ndomain: y", "domain: 5", "domain: yes", "domain: 1.5",
	"domain: x\nhello: 1", "domain: x\n1: 1", "domain: x\nyes: 1", "domain: x\n~: 1", "domain: x\ndescriptors: [1]", "domain: x\ndescriptors: {}",
	"domain: x\ndescriptors: x", "domain: x\ndescriptors: [[]]", "domain: x\ndescriptors: [{}]", "domain: x\ndescriptors: [{key: }]",
	"domain: x\ndescriptors: [{key: a, value: }]", "domain: x\ndescriptors: [{key: 1, value: 2}]", "domain: x\ndescriptors: [{key: a, value: true}]",
	"domain: x\ndescriptors: [{key: a}, {key: a}]", "domain: x\ndescriptors: [{key: a, value: b}, {key: a_b}]",
	"domain: x\ndescriptors: [{key: a, descriptors: [{key: b}, {key: b}]}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: }]", "domain: x\ndescriptors: [{key: a, rate_limit: {}}]", "domain: x\ndescriptors: [{key: a, rate_limit: 1}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: fortnight}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: UNKNOWN}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: -1}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: many}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 010}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1.5}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1e3}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, unlimited: true}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: odd, unlimited: true}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unlimited: true, replaces: [{name: b}]}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: [{}]}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: [b]}}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: b}}]",
	"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, name: n, replaces: [{name: m}, {name: n}]}}]",
	"domain: x\ndescriptors: [{key: a, share_threshold: true}]", "domain: x\ndescriptors: [{key: a, value: b, share_threshold: yes}]", "domain: x\ndescriptors: [{key: a*, share_threshold: on}]",
	"domain: x\ndescriptors: [{key: a, shadow_mode: maybe}]", "domain: x\ndescriptors: [{key: a, quota_mode: 1}]",
	"domain: x\nkey: y\nunit: z", "domain: [", "domain: x\n\tdescriptors: []", "domain: x\ndescriptors: &d [{key: a, descriptors: *d}]",
	"domain: x\nvalue: 2001-01-01", "domain: x\nvalue: 99999999999999999999", "domain: x\nvalue: !!binary aGk=", "--- {domain: x}\n--- {domain: y}", "\x00", "domain: \xff",
}

// TestMistakesAreCalledTheSame has both services load files that are wrong,
// and random ones with a line changed.
func TestMistakesAreCalledTheSame(t *testing.T) {
	files := append([]string{}, mistakes...)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		files = append(files, damaged(r, bench.File(r, "x")))
	}
	var in bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&in, "%d\n%s", len(f), f)
	}
	check := exec.Command(peer, "check")
	check.Stdin = &in
	out, err := check.Output()
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)
	theirs := json.NewDecoder(bytes.NewReader(out))
	wrong := 0
	for _, f := range files {
		var want string
		if err := theirs.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got := load(t, limiter, f)
		if got != "" {
			wrong++
		}
		if inOwnWords(got) != inOwnWords(want) {
			t.Errorf("%s\npeer: %s\nours: %s", f, want, got)
		}
	}
	t.Logf("%d files, %d of them wrong", len(files), wrong)
}

// load is what our service says about a file.
func load(t *testing.T, limiter *sluice.Limiter, content string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := envoy.Open(envoy.Config{Limiter: limiter, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return strings.TrimPrefix(err.Error(), "envoy: ")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return ""
}

// inOwnWords leaves out the names of Go types, which the YAML library writes
// into its errors.
var inOwnWords = strings.NewReplacer(
	"config.YamlRoot", "root", "envoy.yamlRoot", "root",
	"config.YamlDescriptor", "descriptor", "envoy.yamlDescriptor", "descriptor",
	"config.YamlRateLimit", "limit", "envoy.yamlRateLimit", "limit",
	"config.yamlReplaces", "replaces", "struct { Name string }", "replaces",
	"map[interface {}]interface {}", "map", "map[any]any", "map",
).Replace

// damaged is a file with one line left out, repeated or changed.
func damaged(r *rand.Rand, file string) string {
	lines := strings.SplitAfter(file, "\n")
	i := r.IntN(len(lines) - 1)
	switch r.IntN(4) {
	case 0:
		lines[i] = ""
	case 1:
		lines[i] += lines[i]
	case 2:
		lines[i] = strings.Replace(lines[i], ":", ": x", 1)
	case 3:
		if at := r.IntN(len(lines[i])); lines[i][at] != '\n' {
			lines[i] = lines[i][:at] + lines[i][at+1:]
		}
	}
	return strings.Join(lines, "")
}
