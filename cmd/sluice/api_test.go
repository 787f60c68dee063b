package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/client"
)

// described are the server's endpoints according to its own description, as
// patterns of net/http.
func described(t *testing.T, s *testServer) []string {
	t.Helper()
	c, err := client.New(client.Config{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.OpenAPI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []string
	for path, methods := range file.Paths {
		for method := range methods {
			if method = strings.ToUpper(method); slices.Contains([]string{"GET", "PUT", "POST", "PATCH", "DELETE"}, method) {
				all = append(all, method+" "+path)
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d endpoints found", len(all))
	}
	return all
}

// notCommands are endpoints that are not for people at a terminal.
var notCommands = map[string]string{
	"GET /v1/openapi.yaml": "the description itself",
	"GET /v1/openapi.json": "the description itself",
	"GET /":                "for people in a browser",
	"GET /healthz":         "for load balancers",
	"GET /readyz":          "for load balancers",

	"POST /v1/slots/events/{event}/extend": "slots work does it for commands that take long",
}

// Everything that the server does can be done from the command line: this
// script asks all of its endpoints.
func TestEveryEndpointHasACommand(t *testing.T) {
	s := openServer(t)
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"takes.jsonl":  `{"entity":"alice","resource":"api"}` + "\n\n" + `{"entity":"alice","resource":"api","cost":{"rpm":2},"limits":{"rpm":"10/s"}}` + "\n",
		"events.jsonl": `{"event":"e1","plan":"mail"}` + "\n" + `{"event":"e2","plan":"mail","payload":{"n":1}}` + "\n",
		"limits.yaml":  "version: 1\nsystem: {limit: {rpm: 60/minute}}\n",
		"answer.json":  `{}`,
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var secret, key string
	remember := func(printed string) {
		var made struct{ ID, Secret string }
		if err := json.Unmarshal([]byte(printed), &made); err != nil || made.Secret == "" {
			t.Fatalf("no key in %s: %v", printed, err)
		}
		secret, key = made.Secret, made.ID
	}
	const claim = "00112233445566778899aabbccddeeff"
	for _, line := range strings.Split(`
		take alice api
		take --batch takes.jsonl
		peek alice api
		adjust alice api --cost rpm=-1
		lease acquire alice api --idempotency-key l1
		lease adjust l1 --cost rpm=2 --keep 2m
		lease commit l1
		lease acquire alice api --idempotency-key l2 --wait 1s
		lease release l2
		reset alice api
		status alice api
		status alice
		explain alice api
		explain --method POST --path /api --address 192.0.2.1
		top --once

		tier set pro
		tier get pro
		tier list
		entity create alice --tier pro
		entity get alice
		entity list
		entity update alice --name Alice
		system set rpm=10/s
		system get
		resource set api rpm=11/s
		resource get api
		resource list
		tier set-limits pro rpm=12/s
		tier limits pro
		tier set-limits pro rpm=12/s --resource api
		tier limits pro --resource api
		entity set-limits alice rpm=13/s
		entity limits alice
		entity set-limits alice rpm=13/s --resource api
		entity limits alice --resource api
		limits list
		override set alice rpm 1/s --until 2040-01-03 --reason test
		override list
		override remove alice rpm
		key create alice --scope sluice:read --create --json
		status --me --token SECRET
		key list
		key get KEY
		key update KEY --name laptop
		key rotate KEY --json
		key revoke KEY
		key delete KEY
		entity remove-limits alice --resource api
		entity remove-limits alice
		tier remove-limits pro --resource api
		tier remove-limits pro
		resource remove api
		system remove
		limits plan limits.yaml --name limits.yaml
		limits apply limits.yaml --name limits.yaml
		usage list --entity alice --to 2040-02-01
		usage summary --to 2040-02-01
		WAIT
		audit list
		audit archive --before 2040-01-02T03:05:00Z -o a.gz
		audit prune --before 2040-01-02T03:05:00Z --yes
		entity delete alice
		tier delete pro
		cache flush
		namespace create shop
		namespace get shop
		namespace list
		namespace delete shop --yes

		nodes
		sanctions list
		sanctions lift key:nobody

		slots plan set mail --window 1m
		slots plan get mail
		slots plan list
		slots plan versions mail
		slots pause mail
		slots resume mail
		slots flush
		slots assign e0 --plan mail --payload {"n":1}
		slots batch events.jsonl
		slots status e0
		slots window mail --at 2040-01-02T04:04:30Z
		slots load mail
		slots cancel e1 --reason test
		slots confirm e0
		slots complete e0 --fence 1
		slots assign e9 --plan mail
		slots confirm e9
		slots complete e9 --fence 1 --failure broken
		slots failed mail
		slots unknown mail
		slots requeue e9
		slots requeue --plan mail
		slots reconcile mail --dry-run
		slots work mail --once -- false
		slots audit --plan mail

		replays claim POST /orders k1 --claim CLAIM
		replays extend POST /orders k1 --claim CLAIM
		replays complete POST /orders k1 --claim CLAIM --status 201 --body answer.json
		replays lookup POST /orders k1
		replays forget POST /orders k1
		replays claim POST /orders k2 --claim CLAIM
		replays release POST /orders k2 --claim CLAIM
		replays claim POST /orders k3 --claim CLAIM
		WAIT
		replays settle POST /orders k3 --never-ran
		replays stats
		replays recent --everyone
	`, "\n") {
		line = strings.NewReplacer("SECRET", secret, "KEY", key, "CLAIM", claim).Replace(strings.TrimSpace(line))
		if line == "" {
			continue
		}
		if line == "WAIT" {
			s.clock.Advance(time.Hour)
			continue
		}
		printed := s.ok(t, strings.Fields(line)...)
		if strings.HasPrefix(line, "key create") || strings.HasPrefix(line, "key rotate") {
			remember(printed)
		}
	}
	mux := http.NewServeMux()
	unasked := map[string]bool{}
	for _, pattern := range described(t, s) {
		mux.Handle(pattern, http.NotFoundHandler())
		unasked[pattern] = notCommands[pattern] == ""
	}
	for _, r := range s.asked {
		_, pattern := mux.Handler(r)
		if pattern == "" {
			t.Errorf("%s %s is not in the description", r.Method, r.URL.Path)
		}
		unasked[pattern] = false
	}
	var without []string
	for pattern, missing := range unasked {
		if missing {
			without = append(without, pattern)
		}
	}
	slices.Sort(without)
	if len(without) > 0 {
		t.Errorf("no command asks\n  %s", strings.Join(without, "\n  "))
	}
	fmt.Fprintf(t.Output(), "%d requests to %d endpoints\n", len(s.asked), len(unasked))
}
