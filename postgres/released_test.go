package postgres

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReleasedMigrationsStay compares the migrations with those of earlier
// versions: databases remember them by number and name, and have run them as
// they were. A new one gets a line at the end of testdata/migrations.
func TestReleasedMigrationsStay(t *testing.T) {
	all, err := loadMigrations("sluice")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range all {
		fmt.Fprintf(&got, "%x %s\n", sha256.Sum256([]byte(m.sql)), m.name)
	}
	want, err := os.ReadFile("testdata/migrations")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("migrations are\n%swant\n%s", got.String(), want)
	}
}
