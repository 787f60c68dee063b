package abuse_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/httplimit/abuse"
)

func TestFailedLoginsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := abuse.NewLogins(slog.New(slog.NewTextHandler(&out, nil)))
		for range 1000 {
			l.Failed(t.Context(), "key", "no such key", "ip:203.0.113.77")
		}
		time.Sleep(10 * time.Second)
		l.Failed(t.Context(), "token", "it has expired", "ip:203.0.113.77")
		said := out.String()
		if strings.Count(said, "login failed") != 2 || !strings.Contains(said, "count=1\n") || !strings.Contains(said, `reason="it has expired"`) || !strings.Contains(said, "count=1000\n") {
			t.Error(said)
		}
		if strings.Contains(said, "203.0.113") {
			t.Errorf("addresses are not masked: %s", said)
		}
		if c := l.Counts(); c["key"] != 1000 || c["token"] != 1 || c["api"] != 0 {
			t.Error(c)
		}
	})
	var none *abuse.Logins
	none.Failed(t.Context(), "key", "", "")
}
