package alarm_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/internal/alarm"
)

// TestLinesAreWritten: a message that is reworded where it is logged would no
// longer be posted.
func TestLinesAreWritten(t *testing.T) {
	missing := map[string]bool{}
	for _, line := range alarm.Lines {
		missing[line] = true
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "alarm" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || d.Name() == "sparing.go" {
			return nil
		}
		source, err := os.ReadFile(path)
		for line := range missing {
			if strings.Contains(string(source), `"`+line+`"`) {
				delete(missing, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range missing {
		t.Errorf("nothing logs %q", line)
	}
}
