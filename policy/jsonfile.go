package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// jsonNodes reads JSON into the nodes that YAML would make of it, and answers
// nil if it is not JSON. YAML has most of JSON, but neither tabs as indentation
// nor all of its escapes.
func jsonNodes(content []byte) *yaml.Node {
	if first := bytes.TrimLeft(content, " \t\r\n"); len(first) == 0 || first[0] != '{' || !json.Valid(content) {
		return nil
	}
	j := &jsonReader{content: content, decoder: json.NewDecoder(bytes.NewReader(content)), line: 1, column: 1}
	j.decoder.UseNumber()
	return j.value()
}

// jsonReader knows the line and column of each token.
type jsonReader struct {
	content      []byte
	decoder      *json.Decoder
	offset       int
	line, column int
}

// token reads one, and where it begins. What is read is valid already.
func (j *jsonReader) token() (json.Token, position) {
	for j.offset < len(j.content) && bytes.IndexByte([]byte(" \t\r\n,:"), j.content[j.offset]) >= 0 {
		j.step()
	}
	at := position{j.line, j.column}
	t, err := j.decoder.Token()
	if err != nil && err != io.EOF {
		panic("policy: " + err.Error())
	}
	for j.offset < int(j.decoder.InputOffset()) {
		j.step()
	}
	return t, at
}

func (j *jsonReader) step() {
	j.column++
	if j.content[j.offset] == '\n' {
		j.line, j.column = j.line+1, 1
	}
	j.offset++
}

func (j *jsonReader) value() *yaml.Node {
	t, at := j.token()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: at.line, Column: at.column}
	switch t := t.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for j.decoder.More() {
			n.Content = append(n.Content, j.value())
		}
		j.token()
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}
