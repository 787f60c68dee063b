package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// example is a command of a page, with what the page says it prints.
type example struct {
	line    int
	command string
	output  []string // in a console block
	status  string   // of the answer to curl, from a comment: # 429
	answer  string   // a block of JSON right after the command's own
}

// page is a document, or a file of examples with its comments as the text.
type page struct {
	name     string
	text     string
	examples []example
	stray    []string // what looks like a command and is in no block for commands
}

// readPages reads all pages that are for users.
func readPages(t *testing.T, repository string) []*page {
	t.Helper()
	var all []*page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(repository, path)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(path) != ".md" {
				text = comments(text)
			}
			all = append(all, readPage(name, string(text)))
		}
	}
	return all
}

// comments are the comments of a file in YAML. The lines stay where they are.
func comments(text []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		_, comment, _ := strings.Cut(line, "#")
		b.WriteString(strings.TrimPrefix(strings.TrimSuffix(comment, "\n"), " ") + "\n")
	}
	return []byte(b.String())
}

// programs are what a command begins with; the list is there to find commands
// that are not where they belong.
var programs = regexp.MustCompile(`^\s*(\$ |((export )?[A-Z_]+=\S+ *)+(\\?$|\w)|` +
	`(sudo )?(sluice|go|make|curl|docker|apt|apt-get|git|psql|pg_dump|sqlite3|redis-cli|openssl|promtool|nginx|caddy|kubectl|helm|systemctl|source|mkdir|cp|wrk)( |$))`)

// readPage finds the commands of a page: in blocks marked console the lines
// that begin with "$ ", followed by what they print, and in blocks marked sh
// all lines. A backslash at the end goes on. All other blocks are for other
// things.
func readPage(name, text string) *page {
	p := &page{name: name, text: text}
	const prose = "in no block"
	block, margin, open := prose, "", false
	answers := -1 // the example that a block of JSON belongs to
	for i, line := range strings.Split(text, "\n") {
		last := len(p.examples) - 1
		if before, mark, ok := strings.Cut(line, "```"); ok && strings.TrimSpace(before) == "" {
			if block == prose {
				block, margin = mark, before
			} else {
				if answers = -1; block == "sh" {
					answers = last
				}
				block, margin = prose, ""
			}
			open = false
			continue
		}
		line = strings.TrimPrefix(line, margin)
		switch block {
		case "console":
			switch {
			case strings.HasPrefix(line, "$ "):
				p.examples, open = append(p.examples, example{line: i + 1, command: strings.TrimPrefix(line, "$ ")}), true
			case !open:
				p.stray = append(p.stray, fmt.Sprintf("%s:%d: %s\nis in a console block before any command", name, i+1, line))
			case len(p.examples[last].output) == 0 && strings.HasSuffix(p.examples[last].command, `\`):
				p.examples[last].command += "\n" + line
			default:
				p.examples[last].output = append(p.examples[last].output, line)
			}
		case "sh":
			switch {
			case open:
				p.examples[last].command += "\n" + line
			case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
				continue
			default:
				p.examples = append(p.examples, example{line: i + 1, command: line})
			}
			open = strings.HasSuffix(line, `\`)
		case "json":
			if answers >= 0 {
				p.examples[answers].answer += line + "\n"
			}
		case "go", "ini", "imports": // statements that begin with go, settings, and the graph of imports
		case prose:
			if strings.TrimSpace(line) != "" {
				answers = -1
			}
			if !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "$ ") {
				continue
			}
			fallthrough
		default:
			if programs.MatchString(line) {
				p.stray = append(p.stray, fmt.Sprintf("%s:%d: %s\nlooks like a command: put it into a block marked sh or console", name, i+1, line))
			}
		}
	}
	for i := range p.examples {
		p.examples[i].strip()
	}
	return p
}

// comment is one at the end of a command: after two spaces.
var comment = regexp.MustCompile(`\s\s+# (.*)$`)

// strip takes a comment off a command, and reads the status in it.
func (e *example) strip() {
	found := comment.FindStringSubmatch(e.command)
	if found == nil {
		return
	}
	e.command = strings.TrimSuffix(e.command, found[0])
	if regexp.MustCompile(`^[1-5]\d\d$`).MatchString(found[1]) {
		e.status = found[1]
	}
}
