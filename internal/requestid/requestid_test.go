package requestid_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/internal/requestid"
)

// An id is kept only if it is the only one and cannot look like something else.
// Otherwise the request gets a new one. Both headers have it in any case.
func TestGive(t *testing.T) {
	given := map[string]bool{}
	for _, c := range []struct {
		brought []string
		kept    bool
	}{
		{[]string{"abc-123_X.y:z/+="}, true},
		{[]string{strings.Repeat("x", 128)}, true},
		{[]string{strings.Repeat("x", 129)}, false},
		{[]string{"a\nlevel=ERROR"}, false},
		{[]string{"ä"}, false},
		{[]string{""}, false},
		{[]string{"a", "b"}, false},
		{nil, false},
	} {
		request, response := http.Header{requestid.Header: c.brought}, http.Header{}
		id := requestid.Give(response, request)
		if kept := len(c.brought) == 1 && id == c.brought[0]; kept != c.kept || id == "" || given[id] {
			t.Errorf("%q: got %q", c.brought, id)
		}
		given[id] = true
		for _, h := range []http.Header{request, response} {
			if got := h.Values(requestid.Header); len(got) != 1 || got[0] != id {
				t.Errorf("%q: a header has %q, want %q", c.brought, got, id)
			}
		}
	}
}
