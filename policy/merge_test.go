package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestAnOddPathIsSettledToo: a path that some servers read as one endpoint and
// others as another is charged for the one whose cost is told afterwards.
func TestAnOddPathIsSettledToo(t *testing.T) {
	p, err := Parse("test", []byte(`
version: 1
limits: {tokens: {limit: {tpm: 1000/minute, other: 1000/minute}}}
endpoints:
  chat: {match: /v1/chat, cost: {tpm: 1}, settle: {tpm: X-Tokens-Used}}
  rest: {match: /v1/**, cost: {tpm: 5}}
  more: {match: '/v1/more/**', cost: {tpm: 6}, settle: {other: X-Other}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/v1/chat": 1, "/v1/x/../chat": 1, "/v1/x%2f..%2fchat": 1, "/v1/more/../chat": 2, "/v1/x": 0} {
		if r := p.Match("POST", path); len(r.Settle) != want {
			t.Errorf("%s: %v", path, r.Settle)
		}
	}
}

// TestOddPathsDoNotFillMemory: whoever makes up paths must not have us keep a
// route for each.
func TestOddPathsDoNotFillMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nlimits: {all: {limit: 1000/minute}}\nendpoints:\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  e%d: {match: ['/a%d', '/a%d/**', '/*/a%d', '/**/a%d'], cost: %d}\n", i, i, i, i, i, i+1)
	}
	p, err := Parse("test", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		var path strings.Builder
		for range 2 + random.IntN(4) {
			fmt.Fprintf(&path, "%s%s%d%s", []string{"/", "//", "%2f", "/..;/", "/../"}[random.IntN(5)], "a", random.IntN(60), []string{"", ";x", "/..", "%2f.."}[random.IntN(4)])
		}
		p.Match("GET", path.String())
	}
	if n := len(p.matcher.merges.known); n > maxMerged {
		t.Errorf("%d merged routes are kept", n)
	}
}
