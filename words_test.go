package sluice_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestWordsHaveOneMeaning keeps words away that docs/glossary.md has another
// one for. Names in stored data stay, and so do migrations, which have run
// where Sluice is in use, and the list of what was renamed.
func TestWordsHaveOneMeaning(t *testing.T) {
	stored := regexp.MustCompile("lease_ends|'leaseends'|json:\"Flights\"|(sluice|%\\[1\\]s)\\.flight\\b|`flight`")
	inFlight := regexp.MustCompile(`(?i)\bin[-_\s/]*flight`)
	old := []struct {
		words *regexp.Regexp
		say   string
	}{
		{regexp.MustCompile(`(?i)\bleas(ed|ing|able)\b|\bleased_|sluice_lease_|From` + `Lease|leases?( tokens)? (in advance|ahead)|--lease\b`), "held, for tokens that are taken ahead of need"},
		{regexp.MustCompile(`(?i)lease_?ends|lease (has |had )?laps|idempotency\.(Min|Max)Lease`), "claim, for the run of an idempotent write"},
		{regexp.MustCompile(`(?i)flights?`), "holder for what is in flight under a concurrency limit, queue or batch for what goes together"},
	}
	for _, suffix := range []string{".go", ".lua", ".md", ".yaml", ".json", ".svg"} {
		files(t, suffix, func(name, content string) {
			if name == "words_test.go" || name == "CHANGELOG.md" {
				return
			}
			content = stored.ReplaceAllString(inFlight.ReplaceAllStringFunc(content, keepLines), "")
			for i, line := range strings.Split(content, "\n") {
				for _, o := range old {
					if word := o.words.FindString(line); word != "" {
						t.Errorf("%s:%d: %q: say %s", name, i+1, word, o.say)
					}
				}
			}
		})
	}
}

// keepLines is what is left of s without its text.
func keepLines(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }
