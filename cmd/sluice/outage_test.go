package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/redis/redistest"
)

// A server whose Redis goes and comes back says so.
func TestAnOutageShows(t *testing.T) {
	redis := redistest.Start(t)
	p := begin(t, "serve", "--store", redis.URL(), "--catalog", filepath.Join(t.TempDir(), "sluice.db"), "--admin-listen", "127.0.0.1:0")
	c := p.ask(t)
	shows := func(state string) bool {
		_, text := p.get(t, "/readyz")
		s, err := c.Status(t.Context(), "alice", "chat")
		return strings.Contains(text, `"store":{"state":"`+state+`"`) && err == nil && s.Store == state &&
			strings.Contains(statusText(&s), "the store is "+state+":") == (state != "normal")
	}
	eventually(t, "a store in order", func() bool { return shows("normal") })
	redis.Kill()
	eventually(t, "an outage", func() bool { return shows("open") })
	redis.Restart()
	eventually(t, "an end of it", func() bool { return shows("normal") })
}
