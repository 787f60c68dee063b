package catalogstore

import (
	"testing"

	driver "modernc.org/sqlite"

	"github.com/sluice-go/sluice/sqlite"
)

// pageCounter returns a function that runs a statement to its end and returns
// how many times SQLite looked at a page of the file, cached or not.
func pageCounter(t *testing.T, db *sqlite.DB) func(statement) int {
	t.Helper()
	conn, err := db.Reader().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	looks := func() (sum int) {
		t.Helper()
		err := conn.Raw(func(c any) error {
			for _, counter := range []driver.DBStatusOp{driver.DBStatusCacheHit, driver.DBStatusCacheMiss} {
				n, _, err := c.(driver.DBStatus).Status(counter, true)
				if err != nil {
					return err
				}
				sum += n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	return func(s statement) int {
		t.Helper()
		looks() // at what was before
		rows, err := conn.QueryContext(t.Context(), s.sql, s.args...)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		for rows.Next() { // only the work counts
		}
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		return looks()
	}
}
