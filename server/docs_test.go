package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// wrapper makes curl say the status of each answer, and nothing else but the
// answer.
const wrapper = `set -euo pipefail
curl() { command curl -sS -w '%{stderr}status %{http_code}\n' "$@"; }
`

// What the documentation shows is run, in order, and answered as it says.
func TestTheDocumentedCommands(t *testing.T) {
	page := must(os.ReadFile("../docs/http-api.md"))(t)
	s := stage(t, open)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:```json\n(.*?)```)?").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 10 {
		t.Fatalf("%d blocks are shown", len(blocks))
	}
	folder := t.TempDir()
	for _, block := range blocks {
		script := strings.ReplaceAll(block[1], "http://127.0.0.1:8080", s.url)
		var expected []string
		for line := range strings.Lines(script) {
			if !strings.Contains(line, "curl ") {
				continue
			}
			status := "2"
			if _, after, ok := strings.Cut(line, "  # "); ok {
				status = strings.TrimSpace(after)
			}
			expected = append(expected, status)
		}
		command := exec.CommandContext(t.Context(), "bash", "-c", wrapper+script)
		command.Dir = folder
		var errors strings.Builder
		command.Stderr = &errors
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", block[1], err, out, &errors)
		}
		statuses := regexp.MustCompile(`status (\d+)`).FindAllStringSubmatch(errors.String(), -1)
		if len(statuses) != len(expected) {
			t.Fatalf("%s: %d answers\n%s%s", block[1], len(statuses), out, &errors)
		}
		for i := range expected {
			if !strings.HasPrefix(statuses[i][1], expected[i]) {
				t.Errorf("command %d of these is answered %s, not %s\n%s%s", i+1, statuses[i][1], expected[i], block[1], out)
			}
		}
		if block[2] == "" {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		var shown, got any
		if err := json.Unmarshal([]byte(block[2]), &shown); err != nil {
			t.Fatalf("%s: %v", block[2], err)
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if where := differs(shown, got, "answer"); where != "" {
			t.Errorf("%s\nshown: %s\nanswered: %s", where, block[2], lines[len(lines)-1])
		}
	}
}

// differs says where what is shown is not what was answered. What is not
// shown may be anything.
func differs(shown, got any, at string) string {
	switch want := shown.(type) {
	case map[string]any:
		for name, v := range want {
			if where := differs(v, object(got)[name], at+"."+name); where != "" {
				return where
			}
		}
		return ""
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return fmt.Sprintf("%s: %v is not %v", at, got, shown)
		}
		for i := range want {
			if where := differs(want[i], list[i], fmt.Sprintf("%s[%d]", at, i)); where != "" {
				return where
			}
		}
		return ""
	}
	if shown != got {
		return fmt.Sprintf("%s: %v is not %v", at, got, shown)
	}
	return ""
}
