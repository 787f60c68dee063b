package httplimit_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
)

// TestKeysThatComeLaterThanTheirPolicy are used without another reload.
func TestKeysThatComeLaterThanTheirPolicy(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	synctest.Test(t, func(t *testing.T) {
		var current atomic.Pointer[policy.Policy]
		current.Store(parse(t, "version: 1\nlimits: {old: {limit: 1/s}}\n"))
		g := gate(t, "version: 1\n", func(c *httplimit.Config) { c.Policy = current.Load })
		current.Store(parse(t, "version: 1\nlimits: {new: {limit: 1/s}}\nidentity: {jwt: {algorithms: [HS256], secret_file: "+secret+"}}\n"))
		label := func() string {
			var c httplimit.Call
			g.Decide(t.Context(), &httplimit.Request{Method: "GET", Path: "/", Remote: "192.0.2.1:1"}, &c)
			synctest.Wait()
			return strings.Join(c.Labels, " ")
		}
		label()
		if got := label(); got != "old" || g.Problem() == nil {
			t.Errorf("%s, %v", got, g.Problem())
		}
		if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		label()
		if got := label(); got != "new" || g.Problem() != nil {
			t.Errorf("%s, %v", got, g.Problem())
		}
	})
}
