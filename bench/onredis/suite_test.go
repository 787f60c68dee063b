package onredis

import (
	"io"
	"testing"
	"time"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/bench/redisserver"
)

// Each contender must really limit, or its speed means nothing.
func TestContendersLimit(t *testing.T) {
	server, err := redisserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range contenders() {
		s, err := c.open(server.Address, limit{burst: 5, every: time.Hour, callers: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		takes := []contest.Take{s.caller(), s.caller()}
		for _, key := range []string{"a", "b"} {
			for i := range 8 {
				ok, err := takes[i%2](key)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if want := i < 5; ok != want {
					t.Errorf("%s: key %s, take %d: allowed %t, want %t", c.name, key, i+1, ok, want)
				}
			}
		}
	}
}

func TestQuickRunMeasuresEverything(t *testing.T) {
	s, err := Run(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Claims) != 4 || len(s.Tables) != 1 || len(s.Tables[0].Rows) != len(contenders()) {
		t.Errorf("got %+v", s)
	}
}
