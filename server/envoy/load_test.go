package envoy_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/server/envoy"
)

// TestMistakes have the words that envoyproxy/ratelimit has for them; package
// bench/envoy compares them with it.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "config.test.yaml: config file cannot have empty domain"},
		{"domain: x\nhello: 1", "config.test.yaml: config error, unknown key 'hello'"},
		{"domain: x\n1: 1", "config.test.yaml: config error, key is not of type string: 1"},
		{"domain: x\ndescriptors: [1]", "config.test.yaml: config error, yaml file contains list of type other than map: 1"},
		{"domain: 1.5", "config.test.yaml: error checking config"},
		{"domain: x\ndescriptors: [{value: x}]", "config.test.yaml: descriptor has empty key"},
		{"domain: x\ndescriptors: [{key: a}, {key: a}]", "config.test.yaml: duplicate descriptor composite key 'x.a'"},
		{"domain: x\ndescriptors: [{key: a, value: b}, {key: a_b}]", "config.test.yaml: duplicate descriptor composite key 'x.a_b'"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {}}]", "config.test.yaml: invalid rate limit unit ''"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {unit: unknown}}]", "config.test.yaml: invalid rate limit unit 'unknown'"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, unlimited: true}}]", "config.test.yaml: should not specify rate limit unit when unlimited"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: [{}]}}]", "config.test.yaml: should not have an empty replaces entry"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}]", "config.test.yaml: replaces should not contain name of same descriptor"},
		{"domain: x\ndescriptors: [{key: a, value: b, share_threshold: true}]", "config.test.yaml: share_threshold can only be used with wildcard values (ending with '*'), but found key 'a_b'"},
		{"domain: [", "config.test.yaml: error loading config file: yaml: line 1: did not find expected node content"},

		// Ours.
		{"domain: x\nalgorithm: leaky\ndescriptors: [{key: a, rate_limit: {unit: day}}]", "algorithm 'leaky': want fixed_window, sliding_window or token_bucket"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, period: 2h}}]", "a limit has a unit or a period, not both"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {period: soon}}]", "rate_limit.period 'soon': want a period such as 90s, 15min or 2h30m"},
		{"domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, burst: 5}}]", "only a token bucket has a burst"},
		{"domain: x\nhold: true\ndescriptors: [{key: a, rate_limit: {unit: day, count_refused: true}}]", "hold: true goes with count_refused: false"},
	} {
		_, err := envoy.Open(envoy.Config{
			Limiter: sluice.New(memoryStore(t)), Dir: write(t, map[string]string{"test.yaml": c.file}), Log: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.file, err, c.want)
		}
	}
}

func TestSeveralFilesOfOneDomain(t *testing.T) {
	files := map[string]string{
		"a.yaml":     "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]",
		"sub/b.yaml": "domain: x\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]",
		"..data":     "is left out",
	}
	config := envoy.Config{Limiter: sluice.New(memoryStore(t)), Dir: write(t, files), Log: slog.New(slog.DiscardHandler)}
	if _, err := envoy.Open(config); err == nil || !strings.Contains(err.Error(), "config.sub.b.yaml: duplicate domain 'x' in config file") {
		t.Errorf("got %v", err)
	}
	s := openOn(t, memoryStore(t), config.Dir, envoy.Settings{MergeDomains: true})
	want := "x.a: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false\n" +
		"x.b: unit=DAY requests_per_unit=2, shadow_mode: false, quota_mode: false\n"
	if s.Dump() != want {
		t.Errorf("rules:\n%s", s.Dump())
	}
}

func TestNoFolder(t *testing.T) {
	file := filepath.Join(write(t, map[string]string{"a": ""}), "a")
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "nowhere"), file} {
		if _, err := envoy.Open(envoy.Config{Limiter: sluice.New(memoryStore(t)), Dir: dir}); err == nil {
			t.Errorf("%q was taken for a folder", dir)
		}
	}
}

// lines is a log that tells what is written to it.
type lines chan string

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	l <- r.Message
	return nil
}
func (l lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l lines) WithGroup(string) slog.Handler      { return l }

func (l lines) expect(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, want) {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing was said about %q", want)
		}
	}
}

// TestFilesAreLoadedAgain edits a file, breaks it, and replaces the whole
// folder by another link, as deployments do.
func TestFilesAreLoadedAgain(t *testing.T) {
	file := func(n string) string {
		return "domain: x\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: " + n + "}}]"
	}
	first := write(t, map[string]string{"a.yaml": file("10")})
	second := write(t, map[string]string{"a.yaml": file("30")})
	link := filepath.Join(t.TempDir(), "config")
	if err := os.Symlink(first, link); err != nil {
		t.Fatal(err)
	}
	said := make(lines, 100)
	s, err := envoy.Open(envoy.Config{Limiter: sluice.New(memoryStore(t)), Dir: link, Log: slog.New(said)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	said.expect(t, "limits loaded")
	check := func(want string) {
		t.Helper()
		if got := outline(ask(t, s, request("x", d("a", "1")))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	check("OK, OK 9/10")

	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(first, "a.yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	replace(file("20"))
	said.expect(t, "limits loaded")
	check("OK, OK 18/20") // what was used still counts

	replace("domain: [")
	said.expect(t, "the limits stay as they are")
	check("OK, OK 17/20")
	for range 2 { // also when asked again
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "config.a.yaml: error loading config file") {
			t.Errorf("got %v", err)
		}
	}

	if err := os.Symlink(second, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	said.expect(t, "limits loaded")
	check("OK, OK 26/30")
}
