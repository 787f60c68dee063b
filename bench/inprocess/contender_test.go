package inprocess

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/bench/report"
)

// Each contender must really limit, or its speed means nothing.
func TestContendersLimit(t *testing.T) {
	three := contender{Name: "three", open: openSluiceThree}
	for _, c := range append([]contender{sluices(), three, floors()}, peers()...) {
		t.Run(c.Name, func(t *testing.T) {
			opens := map[string]func(limit, int) (*instance, error){"open": c.open, "expiring": c.expiring}
			for name, open := range opens {
				if open == nil {
					continue
				}
				in, err := open(limit{Burst: 5, Every: time.Hour, Window: 5 * time.Hour}, 10)
				if err != nil {
					t.Fatal(err)
				}
				defer in.close()
				for _, key := range []string{"a", "b"} {
					// Two callers share the limit.
					takes := []func(string) (bool, error){in.caller(), in.caller()}
					for i := range 8 {
						ok, err := takes[i%2](key)
						if err != nil {
							t.Fatal(err)
						}
						if want := i < 5; ok != want {
							t.Errorf("%s: key %s, take %d: allowed %t, want %t", name, key, i+1, ok, want)
						}
					}
				}
			}
		})
	}
}

func TestQuickRunsMeasureEverything(t *testing.T) {
	speed, err := Speed(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	capacity, err := Capacity(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*report.Suite{speed, capacity} {
		page := s.Markdown()
		for _, c := range append(peers(), sluices(), floors()) {
			if !strings.Contains(page, c.Name) {
				t.Errorf("%s: the page does not mention %s", s.Title, c.Name)
			}
		}
	}
	if tables, claims := len(speed.Tables), len(speed.Claims); tables != 4 || claims != 5 {
		t.Errorf("speed: got %d tables and %d claims", tables, claims)
	}
	if tables, claims := len(capacity.Tables), len(capacity.Claims); tables != 3 || claims != 2 {
		t.Errorf("capacity: got %d tables and %d claims", tables, claims)
	}
}
