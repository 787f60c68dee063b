package catalogstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"path/filepath"

	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// TestUsageSize has 20 000 entities take something for the first time, and looks
// at what they cost on disk.
func TestUsageSize(t *testing.T) {
	const entities, most = 20_000, 400 // bytes each
	db := open(t, filepath.Join(t.TempDir(), "sluice.db"))
	c := catalogstore.New(db)
	size := func() (bytes int64) {
		if err := db.Reader().QueryRow("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	before, seq := size(), int64(0)
	for first := 0; first < entities; first += 2000 {
		var rows []catalog.UsageRow
		for i := first; i < first+2000; i++ {
			n := i * 7919 % entities // in no order, as addresses come
			r := catalog.UsageRow{
				Namespace: "default", Entity: fmt.Sprintf("ip:198.51.%d.%d", n/256, n%256), Resource: "api", Limit: "per-address",
				Amount: 1000, Count: 1, Last: now,
			}
			for _, r.Span = range []catalog.Span{catalog.Hourly, catalog.Daily, catalog.Total} {
				r.Start = now
				if r.Span == catalog.Daily {
					r.Start = now.Truncate(24 * time.Hour)
				}
				rows = append(rows, r)
			}
		}
		seq++
		if err := c.AddUsage(t.Context(), &catalog.UsageBatch{Node: "node", Seq: seq, Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
	each := (size() - before) / entities
	t.Logf("%d bytes for each entity", each)
	if each > most {
		t.Errorf("an entity that takes once costs %d bytes, want at most %d", each, most)
	}
}
