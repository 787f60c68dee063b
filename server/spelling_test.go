package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

// Names in a body mean the same in upper and lower case, or are refused; none
// is left out without a word.
func TestNamesInAnotherCase(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	must(c.SetLimits(t.Context(), catalog.Scope{}, limits("rpm", "100/minute"), 0))(t)
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/take", `{"entity":"a1","cost":30}`, 200, `"remaining":70`},
		{"POST", "/v1/take", `{"Entity":"a2","Cost":30}`, 200, `"remaining":70`},
		{"POST", "/v1/take", `{"ENTITY":"a3","COST":30}`, 200, `"remaining":70`},
		{"POST", "/v1/take", `{"entity":"a4","co\u017ft":30}`, 200, `"remaining":70`}, // a long s folds to s
		{"POST", "/v1/take", `{"entity":"a5","cost":1,"Cost":30}`, 200, `"remaining":70`},
		{"POST", "/v1/take", `{"entity":"a6","Cost":1,"cost":30}`, 200, `"remaining":70`},
		{"POST", "/v1/take", `{"entity":"a7","cost":30,"Peek":true}`, 200, `"remaining":100`},
		{"POST", "/v1/take", `{"entity":"a8","cost":{"RPM":30}}`, 400, ``}, // not the name of a limit
		{"POST", "/v1/take", `{"entity":"a9","Limits":{"rpm":"40/minute"},"cost":30}`, 200, `"remaining":10`},
		{"POST", "/v1/takes", `{"Takes":[{"Entity":"b1","Cost":30}]}`, 200, `"remaining":70`},
		{"POST", "/v1/leases", `{"entity":"b2","Cost":30,"Keep":"1m"}`, 201, `"remaining":70`},
		{"POST", "/v1/leases", `{"entity":"b2","Keep":60}`, 400, ``},
		{"PUT", "/v1/limits/entities/b3", `{"Limits":{"rpm":{"Rule":"7/minute","Shadow":true}}}`, 200, `"shadow":true`},
		{"PUT", "/v1/limits/entities/b4", `{"limits":{"rpm":{"rule":"7/minute","shade":true}}}`, 400, ``},
		{"POST", "/v1/entities", `{"ID":"b5","Cascade":true,"Parent":"b6"}`, 422, `b6`},
	} {
		request := must(http.NewRequestWithContext(t.Context(), test.method, s.url+test.path, strings.NewReader(test.body)))(t)
		request.Header.Set("Authorization", "Bearer "+adminToken)
		response := must(s.transport.RoundTrip(request))(t) // unchecked: the description has one spelling
		body := string(must(io.ReadAll(response.Body))(t))
		response.Body.Close()
		if response.StatusCode != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: %d %s, want %d %s", test.path, test.body, response.StatusCode, body, test.status, test.want)
		}
	}
}
