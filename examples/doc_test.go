// Package examples has a short program for each of ten tasks, and policy files
// to begin with.
package examples_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheSimplestProgramIsShort(t *testing.T) {
	text, err := os.ReadFile("address_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 12 {
		t.Errorf("limiting by address takes %d lines, want at most 12", lines)
	}
}
