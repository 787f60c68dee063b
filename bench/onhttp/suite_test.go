package onhttp

import (
	"io"
	"testing"
)

func TestQuick(t *testing.T) {
	s, err := Run(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Claims) != 2 || len(s.Tables) != 1 || len(s.Tables[0].Rows) != 4 {
		t.Errorf("%+v", s)
	}
}
