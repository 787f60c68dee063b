package idempotency_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/idempotency"
)

// Problems link to headings of the documentation.
func TestProblemsLeadToTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/idempotency.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			anchors[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-")] = true
		}
	}
	k := memoryKeeper(t)
	for _, code := range []string{
		idempotency.CodeMissing, idempotency.CodeInvalid, idempotency.CodeReused, idempotency.CodeRunning, idempotency.CodeUnknown,
		idempotency.CodeNotKept, idempotency.CodeUnavailable, idempotency.CodeBody, idempotency.CodeInternal,
	} {
		p := k.Problem(code, "detail")
		_, anchor, _ := strings.Cut(p.Type, "#")
		if !anchors[anchor] {
			t.Errorf("%s leads to #%s, which is not there", code, anchor)
		}
		if p.Status < 400 || http.StatusText(p.Status) == "" || p.Title == "" {
			t.Errorf("%s: %+v", code, p)
		}
	}
}
