package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what became of a file with the .txt beside it.
func golden(t *testing.T, input, got string) {
	t.Helper()
	name := strings.TrimSuffix(input, filepath.Ext(input)) + ".txt"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", input, got, want)
	}
}

func inputs(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		t.Fatal("no golden files")
	}
	return all
}

// TestGoodFiles shows what good policies say about the requests that are
// listed in their comments: "# try METHOD PATH TIER".
func TestGoodFiles(t *testing.T) {
	try := regexp.MustCompile(`(?m)# try (\S+) (\S+)(?: (\S+))?$`)
	for _, name := range inputs(t, "testdata/good/*.yaml", "testdata/good/*.json") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(filepath.Base(name), content)
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		var b strings.Builder
		for _, m := range try.FindAllStringSubmatch(string(content), -1) {
			explain(&b, p, m[1], m[2], m[3])
		}
		golden(t, name, b.String())
	}
}

// explain writes all that matters about a request.
func explain(b *strings.Builder, p *Policy, method, path string, tier string) {
	r := p.Match(method, path)
	found := resolved(p, r, tier)
	fmt.Fprintf(b, "%s %s for tier %q: endpoint %q, pattern %q", method, path, found.Tier, r.Endpoint, r.Pattern)
	for _, f := range []struct {
		is   bool
		word string
	}{{r.Exempt, "exempt"}, {r.Write, "write"}, {r.Critical, "critical"}} {
		if f.is {
			b.WriteString(", " + f.word)
		}
	}
	if r.Cost.Thousandths() != sluice.Token && !r.Exempt {
		fmt.Fprintf(b, ", cost %s", r.Cost)
	}
	for _, s := range r.Settle {
		fmt.Fprintf(b, ", settle %s by %s", s.Limit, s.Header)
	}
	if i := r.Idempotency; i != nil {
		fmt.Fprintf(b, ", idempotency %s (required %v, ttl %s, on_crash %s, on_unavailable %s, max body %d, replay %s)",
			i.Name, i.Required, i.TTL, i.OnCrash, i.OnUnavailable, i.MaxBody, i.ReplayCost)
	}
	b.WriteString("\n")
	for _, s := range r.Sets {
		fmt.Fprintf(b, "  %s per %s", s.Name, s.Kind)
		if s.Source != "" {
			fmt.Fprintf(b, " %s (skip missing %v)", s.Source, s.SkipMissing)
		}
		level := sluice.LevelDefault
		var labels []string
		for _, a := range found.Applied {
			if a.Resource == s.Name {
				level = a.Level
				labels = append(labels, a.Label)
			}
		}
		fmt.Fprintf(b, " from %s\n", level)
		for i, d := range s.Append(nil, found, s.Entity("E")) {
			fmt.Fprintf(b, "    %s: %s, cost %s, bucket %s, %s", labels[i], d.Limit, d.Charge(), d.Key, d.OnUnavailable)
			if d.Critical {
				b.WriteString(", critical")
			}
			if d.Shadow {
				b.WriteString(", shadow")
			}
			b.WriteString("\n")
		}
	}
}

// TestBadFiles shows what people get to read about their mistakes.
func TestBadFiles(t *testing.T) {
	for _, name := range inputs(t, "testdata/bad/*.yaml", "testdata/bad/*.json") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(filepath.Base(name), content)
		if err == nil {
			t.Errorf("%s has no mistakes", name)
			continue
		}
		golden(t, name, err.Error()+"\n")
	}
}
