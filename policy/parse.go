package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the largest policy file, in bytes.
const MaxFile = 8 << 20

// Load reads a policy file. Mistakes in it are [Mistakes].
func Load(path string) (*Policy, error) {
	content, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, content)
}

// read is the content of a file, if it is not too large.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return content, nil
}

// Parse reads a policy in YAML or JSON. The name is for messages. If there are
// mistakes, it reports all of them, as [Mistakes].
func Parse(name string, content []byte) (*Policy, error) {
	r := newReport(name)
	file := r.document(content)
	if file == nil {
		return nil, r.err()
	}
	p := compile(file, r)
	if err := r.err(); err != nil {
		return nil, err
	}
	p.Warnings = r.warned
	sum := sha256.Sum256(content)
	p.Revision = hex.EncodeToString(sum[:6])
	return p, nil
}

// document reads a file, or reports why it cannot be read at all.
func (r *report) document(content []byte) *document {
	root, ok := r.parse(content)
	if !ok {
		return nil
	}
	file := &document{Headers: Headers{Degraded: true}} // all else is off if it is missing
	d := &decoder{report: r}
	d.decode("", root, reflect.ValueOf(file).Elem(), "")
	return file
}

// parse finds the one document of a file.
func (r *report) parse(content []byte) (*yaml.Node, bool) {
	top := position{1, 1}
	if len(content) > MaxFile {
		r.put(top, "", "", fmt.Sprintf("the file is larger than %d bytes", MaxFile))
		return nil, false
	}
	if !utf8.Valid(content) {
		r.put(top, "", "", "the file is not UTF-8 text")
		return nil, false
	}
	if n := jsonNodes(content); n != nil {
		return n, true
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	if err == nil {
		err = decoder.Decode(&second)
		if err == nil {
			r.put(position{second.Line, second.Column}, "", "", "is a second document, and one was expected")
			return nil, false
		}
	} else if errors.Is(err, io.EOF) {
		r.put(top, "", "", "the file is empty")
		return nil, false
	}
	if !errors.Is(err, io.EOF) {
		r.put(syntax(err))
		return nil, false
	}
	return doc.Content[0], true
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax is a mistake of the YAML itself.
func syntax(err error) (position, string, string, string) {
	at, message := position{1, 1}, err.Error()
	if m := syntaxLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if line, err := strconv.Atoi(m[1]); err == nil && line > 0 {
			at.line = line
		}
	}
	return at, "", "", "cannot be read as YAML: " + message
}
