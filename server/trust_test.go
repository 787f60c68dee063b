package server_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/server"
)

// trustColumns are those of the table in docs/trust.md.
var trustColumns = []string{"none", "take", "read", "service", "admin"}

// trustTable reads the table: what each operation says for each role.
func trustTable(t *testing.T) map[string]map[string]string {
	t.Helper()
	text := string(must(os.ReadFile("../docs/trust.md"))(t))
	type row struct {
		pattern string
		may     map[string]string
	}
	var rows []row
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != len(trustColumns)+4 || !strings.Contains(line, "/v1/") {
			continue
		}
		may := map[string]string{}
		for i, role := range trustColumns {
			may[role] = strings.TrimSpace(cells[i+3])
		}
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			rows = append(rows, row{found[1], may})
		}
	}
	table := map[string]map[string]string{}
	used := map[string]bool{}
	for _, route := range server.Routes() {
		name, best := route.Method+" "+route.Path, ""
		for _, r := range rows {
			prefix, open := strings.CutSuffix(r.pattern, "…")
			if (name == r.pattern || open && strings.HasPrefix(name, prefix)) && len(r.pattern) > len(best) {
				table[name], best = r.may, r.pattern
			}
		}
		if used[best] = true; best == "" {
			t.Errorf("%s is not in docs/trust.md", name)
		}
	}
	for _, r := range rows {
		if !used[r.pattern] {
			t.Errorf("docs/trust.md has %s, and there is no such operation", r.pattern)
		}
	}
	return table
}

// somebody is a caller of the walk.
type somebody struct {
	name, role, secret string
	everywhere         bool // not held to a namespace
}

// trustBody is the body that names an entity.
func trustBody(route, entity string) string {
	switch route {
	case "POST /v1/take", "POST /v1/leases", "POST /v1/explain", "POST /v1/reset":
		return fmt.Sprintf(`{"entity":%q}`, entity)
	case "POST /v1/takes":
		return fmt.Sprintf(`{"takes":[{"entity":%q}]}`, entity)
	case "POST /v1/adjust":
		return fmt.Sprintf(`{"entity":%q,"cost":{"rpm":1}}`, entity)
	case "POST /v1/replays/lookup", "POST /v1/replays/forget", "POST /v1/replays/settle":
		return fmt.Sprintf(`{"entity":%q,"method":"POST","route":"orders","key":"k"}`, entity)
	case "POST /v1/leases/{id}/commit", "PATCH /v1/leases/{id}":
		return `{"costs":{"rpm":1}}`
	}
	return ""
}

// The table in docs/trust.md is what the server does: every operation, by each
// role, about the caller's entity and others, in their namespace and another.
func TestTheTrustTable(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.PutNamespace(ctx, "elsewhere", ""))(t)
	for _, namespace := range []string{catalog.DefaultNamespace, "elsewhere"} {
		in := c.In(namespace)
		must(in.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100000/minute"), 0))(t)
		for _, e := range []catalog.Entity{{ID: "firm"}, {ID: "alice", Parent: "firm"}, {ID: "child", Parent: "alice"}, {ID: "grandchild", Parent: "child"}, {ID: "sister", Parent: "firm"}, {ID: "mallory"}} {
			must(in.CreateEntity(ctx, e))(t)
		}
	}
	key := func(entity string, scopes ...string) string {
		return must(c.CreateKey(ctx, catalog.Key{Entity: entity, Scopes: scopes}, true))(t).Secret
	}
	var all []somebody
	for _, role := range trustColumns {
		all = append(all, somebody{"key " + role, role, key("alice", "sluice:"+role), false})
	}
	all = append(all, somebody{"token read", "read", readToken, true}, somebody{"token service", "service", serviceToken, true}, somebody{"token admin", "admin", adminToken, true})

	// Who took the leases: another key of alice's, and somebody else's keys.
	takers := map[string]*client.Client{"alice": s.as(t, key("alice", "sluice:take"))}
	for _, other := range []string{"child", "grandchild", "sister", "firm", "mallory"} {
		takers[other] = s.as(t, key(other, "sluice:take"))
	}
	ours := map[string]bool{"alice": true, "child": true, "grandchild": true}
	routes, asked := trustTable(t), 0
	for route, may := range routes {
		method, pattern, _ := strings.Cut(route, " ")
		lease := strings.HasPrefix(pattern, "/v1/leases/{id}")
		for _, who := range all {
			for _, entity := range []string{"alice", "child", "grandchild", "sister", "firm", "mallory"} {
				for _, namespace := range []string{"", catalog.DefaultNamespace, "elsewhere"} {
					path, own := pattern, ours[entity]
					if lease {
						own = entity == "alice" // not what others took, not even children
						taken, _, err := takers[entity].Acquire(ctx, client.Take{Entity: entity})
						if err != nil {
							t.Fatal(err)
						}
						path = strings.Replace(path, "{id}", taken.ID, 1)
					}
					if strings.HasPrefix(path, "/v1/entities") {
						path = strings.Replace(path, "{id}", entity, 1)
					}
					if strings.HasPrefix(path, "/v1/replays") {
						path += "?entity=" + entity
					}
					path = strings.NewReplacer("{entity}", entity, "{", "", "}", "").Replace(path)
					want := false
					switch may[who.role] {
					case "yes":
						want = true
					case "own":
						want = (own || pattern == "/v1/me") && !who.everywhere // they are nobody in particular
					case "all":
						want = who.everywhere
					case "":
					default:
						t.Fatalf("%s: what is %q?", route, may[who.role])
					}
					if namespace == "elsewhere" && !who.everywhere {
						want = false
					}
					status, body := s.attempt(t, method, path, trustBody(route, entity), who.secret, namespace)
					asked++
					if got := status != http.StatusForbidden && status != http.StatusUnauthorized; got != want || status >= 500 {
						t.Errorf("%s as %s about %s in %q: %d %s, want let in: %v", route, who.name, entity, namespace, status, body, want)
					}
				}
			}
		}
	}
	t.Logf("%d operations, %d requests", len(routes), asked)
}

// attempt sends a request that changes nothing, even if it is let in: what it
// would change has another version.
func (s *theater) attempt(t *testing.T, method, path, body, secret, namespace string) (int, string) {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body)))(t)
	request.Header.Set("Authorization", "Bearer "+secret)
	request.Header.Set("If-Match", `"999999"`)
	if namespace != "" {
		request.Header.Set("Sluice-Namespace", namespace)
	}
	response := must(s.transport.RoundTrip(request))(t)
	defer response.Body.Close()
	return response.StatusCode, string(must(io.ReadAll(response.Body))(t))
}

// What a key with the scope sluice:take was once able to do.
func TestAKeyThatTakesHurtsNobodyElse(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/minute"), 0))(t)
	must(c.PutTier(ctx, catalog.Tier{Name: "rich"}))(t)
	must(c.SetLimits(ctx, catalog.Scope{Tier: "rich"}, limits("rpm", "1000/minute"), 0))(t)
	must(c.CreateEntity(ctx, catalog.Entity{ID: "firm"}))(t)
	for _, id := range []string{"eve", "bob"} {
		must(c.CreateEntity(ctx, catalog.Entity{ID: id, Parent: "firm", Cascade: true}))(t)
	}
	eve := must(c.CreateKey(ctx, catalog.Key{Entity: "eve", Scopes: []string{"sluice:take"}}, true))(t).Secret
	service := s.as(t, serviceToken)
	bobs, _, err := service.Acquire(ctx, client.Take{Entity: "bob", ID: "job-1"})
	if err != nil {
		t.Fatal(err)
	}
	if bobs.ID != "job-1" {
		t.Fatalf("%+v", bobs)
	}
	for name, attack := range map[string][3]string{
		"drains another":             {"POST", "/v1/take", `{"entity":"bob","cost":9}`},
		"drains the parent":          {"POST", "/v1/take", `{"entity":"firm","cost":9}`},
		"hides it in a batch":        {"POST", "/v1/takes", `{"takes":[{"entity":"eve"},{"entity":"bob"}]}`},
		"refunds itself":             {"POST", "/v1/adjust", `{"entity":"eve","cost":{"rpm":-9}}`},
		"brings limits":              {"POST", "/v1/take", `{"entity":"eve","limits":{"rpm":"1000000/s"}}`},
		"brings limits for a lease":  {"POST", "/v1/leases", `{"entity":"eve","limits":{"rpm":"1000000/s"}}`},
		"brings a tier":              {"POST", "/v1/take", `{"entity":"eve","tier":"rich"}`},
		"looks with a tier":          {"GET", "/v1/status/eve?tier=rich", ``},
		"puts the parent in debt":    {"POST", "/v1/adjust", `{"entity":"eve","cost":{"rpm":1000000000}}`},
		"settles another's lease":    {"PATCH", "/v1/leases/job-1", `{"costs":{"rpm":1000000000}}`},
		"releases another's lease":   {"DELETE", "/v1/leases/job-1", ``},
		"looks at another":           {"GET", "/v1/status/bob", ``},
		"explains another":           {"POST", "/v1/explain", `{"entity":"bob"}`},
		"acts for who is not there":  {"POST", "/v1/take", `{"entity":"nobody"}`},
		"acts for an address":        {"POST", "/v1/take", `{"entity":"ip:192.0.2.1"}`},
		"acts for a key that is not": {"POST", "/v1/take", `{"entity":"key:other"}`},
	} {
		if r := s.raw(t, attack[0], attack[1], attack[2], bearer(eve)); r.status != 403 || r.json["code"] != "forbidden" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// Its own id is not the id of others', and its lease has bounds.
	mine, d, err := s.as(t, eve).Acquire(ctx, client.Take{Entity: "eve", ID: "job-1", Costs: map[string]sluice.Amount{"rpm": sluice.Tokens(2)}})
	if err != nil || mine == nil || mine.ID == "job-1" || d.Repeated {
		t.Fatalf("%+v %+v %v", mine, d, err)
	}
	if again, d, err := s.as(t, eve).Acquire(ctx, client.Take{Entity: "eve", ID: "job-1", Costs: map[string]sluice.Amount{"rpm": sluice.Tokens(2)}}); err != nil || again.ID != mine.ID || !d.Repeated {
		t.Errorf("%+v %+v %v", again, d, err)
	}
	if r := s.raw(t, "PATCH", "/v1/leases/"+mine.ID, `{"costs":{"rpm":1000000000}}`, bearer(eve)); r.status != 403 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if _, err := mine.Adjust(ctx, sluice.LimitCost{Limit: "rpm", Cost: sluice.Tokens(3)}); err != nil {
		t.Error(err)
	}
	if _, err := mine.Commit(ctx); err != nil {
		t.Error(err)
	}
	for entity, want := range map[string]sluice.Amount{"eve": sluice.Tokens(7), "bob": sluice.Tokens(9), "firm": sluice.Tokens(6)} {
		status := must(c.Status(ctx, client.Subject{Entity: entity}))(t)
		if got := status.Limits[0]; got.Remaining != want {
			t.Errorf("%s has %v, want %v", entity, got.Remaining, want)
		}
	}
}
