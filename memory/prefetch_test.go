package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// TestHintsFollowTheirTables: a wrong hint would only show in the speed.
func TestHintsFollowTheirTables(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := sluice.New(s)
	limit := sluice.Per(1, time.Hour)
	for i := range 60_000 { // some thirty a shard of each class
		k := sluice.Key{Entity: fmt.Sprint(i), Limit: "a"}
		other := k
		other.Limit = "b"
		demands := []sluice.Demand{{Key: k, Limit: limit}, {Key: other, Limit: limit}}
		if _, err := l.Take(t.Context(), demands[:1+i%2]...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.shards {
		for class := range 2 {
			table, h := s.shards[i].tables[class], &s.hints[class][i]
			if table == nil {
				t.Fatalf("shard %d has no record of class %d", i, class)
			}
			var want hint
			want.set(table)
			if h.table.Load() != want.table.Load() || h.tags.Load() != want.tags.Load() || h.words.Load() != want.words.Load() || h.slots.Load() != want.slots.Load() {
				t.Errorf("shard %d, class %d: the hint is of another table", i, class)
			}
		}
	}
}
