package sqlite

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// TestReleasedMigrationsStay compares the migrations with those of earlier
// versions: a file remembers how many it has run, and has run them as they
// were. A new one gets a line at the end of testdata/migrations.
func TestReleasedMigrationsStay(t *testing.T) {
	files, err := migrationFiles()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, file := range files {
		script, err := migrations.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%x sql/%s\n", sha256.Sum256(script), path.Base(file))
	}
	want, err := os.ReadFile("testdata/migrations")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("migrations are\n%swant\n%s", got.String(), want)
	}
}
