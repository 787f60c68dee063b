package policy

import (
	"os"
	"regexp"
	"testing"
)

// What the documentation shows must work.
func TestTheDocumentedPolicyIsValid(t *testing.T) {
	page, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("no policy is shown")
	}
	for _, b := range blocks {
		p := mustParse(t, string(b[1]))
		if r := p.Match("POST", "/api/search"); r.Endpoint != "search" || len(r.Sets) != 2 {
			t.Errorf("%+v", r)
		}
	}
}
