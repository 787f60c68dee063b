package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

// Names in a body are written as they are described, and each once; none is
// guessed, and none left out without a word.
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
		{"POST", "/v1/take", `{"Entity":"a2","cost":30}`, 400, `must be written entity`},
		{"POST", "/v1/take", `{"ENTITY":"a3","entity":"a4"}`, 400, `"field":"ENTITY"`},
		{"POST", "/v1/take", `{"entity":"a3","ENTITY":"a4"}`, 400, `"field":"ENTITY"`},
		{"POST", "/v1/take", `{"entity":"a3","entity":"a4"}`, 400, `"field":"entity"`},
		{"POST", "/v1/take", `{"entity":"a4","co\u017ft":30}`, 400, `must be written cost`}, // a long s folds to s
		{"POST", "/v1/take", `{"entity":"a5","cost":1,"cost":30}`, 400, `"field":"cost"`},
		{"POST", "/v1/take", `{"entity":"a5","cost":1,"c\u006fst":30}`, 400, `"field":"cost"`},
		{"POST", "/v1/take", `{"entity":"a6","cost":{"rpm":1,"rpm":30}}`, 400, `"field":"rpm"`},
		{"POST", "/v1/take", `{"entity":"a7","cost":30,"Peek":true}`, 400, `must be written peek`},
		{"POST", "/v1/take", `{"entity":"a8","cost":{"RPM":30}}`, 400, ``}, // not the name of a limit
		{"POST", "/v1/takes", `{"takes":[{"entity":"b1","Cost":30}]}`, 400, `must be written cost`},
		{"POST", "/v1/leases", `{"entity":"b2","Keep":"1m"}`, 400, `must be written keep`},
		{"POST", "/v1/adjust", `{"entity":"b2","cost":{"rpm":1,"rpm":2}}`, 400, `"field":"rpm"`},
		{"PUT", "/v1/limits/entities/b3", `{"limits":{"rpm":{"Rule":"7/minute"}}}`, 400, `must be written rule`},
		{"PUT", "/v1/limits/entities/b3", `{"limits":{"rpm":"7/minute","rpm":"8/minute"}}`, 400, `"field":"rpm"`},
		{"PUT", "/v1/limits/entities/b4", `{"limits":{"rpm":{"rule":"7/minute","shade":true}}}`, 400, ``},
		{"POST", "/v1/entities", `{"ID":"b5"}`, 400, `must be written id`},
		{"POST", "/v1/slots/batch", `{"events":[{"event":"e","Event":"f"}]}`, 400, `must be written event`},
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

// A request says once who is calling and which namespace it is about.
func TestHeadersThatAreThereTwice(t *testing.T) {
	s := stage(t, nil)
	for name, values := range map[string][]string{
		"Authorization":    {"Bearer " + adminToken, "Bearer " + readToken},
		"Sluice-Namespace": {"default", "other"},
	} {
		request := must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/entities", nil))(t)
		request.Header.Set("Authorization", "Bearer "+adminToken)
		request.Header[name] = values
		response := must(s.transport.RoundTrip(request))(t)
		body := string(must(io.ReadAll(response.Body))(t))
		response.Body.Close()
		if response.StatusCode != 400 || !strings.Contains(body, `"field":"`+name+`"`) {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
	}
}
