package httplimit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
)

// TestKeysThatComeLaterThanTheirPolicy are used without another change of the
// policy file.
func TestKeysThatComeLaterThanTheirPolicy(t *testing.T) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "secret")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := "version: 1\nlimits: {old: {limit: 1/s}}\n"
	g := gate(t, old)
	write(file, old)
	live, err := policy.Watch(t.Context(), file, policy.WatchConfig{Prepare: g.Use, Log: quiet, Poll: time.Hour, Settle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	label := func() string {
		var c httplimit.Call
		g.Decide(t.Context(), &httplimit.Request{Method: "GET", Path: "/", Remote: "192.0.2.1:1"}, &c)
		return strings.Join(c.Labels, " ")
	}
	write(file, "version: 1\nlimits: {new: {limit: 1/s}}\nidentity: {jwt: {algorithms: [HS256], secret_file: "+secret+"}}\n")
	if err := live.Reload(); err == nil || label() != "old" {
		t.Errorf("%s, %v", label(), err)
	}
	write(secret, strings.Repeat("s", 32))
	if err := live.Reload(); err != nil || label() != "new" || live.Policy() != g.Policy() {
		t.Errorf("%s, %v", label(), err)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	config := httplimit.Config{Limiter: limiter(t), Policy: parse(t, "version: 1\n"), Log: quiet}
	if g, err := httplimit.Open(ctx, config); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", g, err)
	}
}
