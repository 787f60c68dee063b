package catalogtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

const crashNamespace = "crash"

// WriteForEver makes changes one after the other and reports each on a line
// once it is acknowledged, until the process is killed. It is what the other
// process of [Crash] does.
func WriteForEver(ctx context.Context, store catalog.Store, out io.Writer) error {
	c, err := catalog.Open(ctx, catalog.Config{Store: store})
	if err != nil {
		return err
	}
	e := c.Edit(crashNamespace, by)
	node := rand.Text()
	for n := 0; ; n++ {
		// Each change has four records and events that must come together.
		var id string
		if page, err := c.Entities(ctx, crashNamespace, catalog.EntityQuery{Parent: "counter", Max: 1000}); err != nil {
			return err
		} else {
			id = fmt.Sprintf("child-%06d", len(page.Entities))
		}
		decl := catalog.Declaration{Name: id, Entities: map[string]catalog.EntityDeclaration{
			id: {Parent: "counter", Limits: limits("rpm", "1/s"), Resources: map[string]catalog.Limits{"chat": limits("rpm", "1/s")}}}}
		plan, err := c.Plan(ctx, crashNamespace, decl)
		if err != nil {
			return err
		}
		if err := e.Apply(ctx, plan); err != nil {
			return err
		}
		err = store.AddUsage(ctx, &catalog.UsageBatch{Node: node + id, Seq: 1, Rows: []catalog.UsageRow{
			{Namespace: crashNamespace, Entity: "counter", Resource: "chat", Limit: "rpm", Span: catalog.Hourly, Start: midnight, Amount: 1, Count: 1},
			{Namespace: crashNamespace, Entity: "counter", Resource: "chat", Limit: "rpm", Span: catalog.Daily, Start: midnight, Amount: 1, Count: 1},
		}})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, id); err != nil {
			return err
		}
	}
}

// Crash kills processes with kill -9 in the middle of writing, and then looks
// whether everything acknowledged is there and nothing is there by half.
// command starts a process that calls [WriteForEver] on the database that open
// opens, with its standard output.
func Crash(t *testing.T, open Open, command func() *exec.Cmd) {
	ctx := t.Context()
	store := open(t)
	c, err := catalog.Open(ctx, catalog.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // it has nothing to say
	e := c.Edit(crashNamespace, by)
	if err := e.CreateNamespace(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateEntity(ctx, catalog.Entity{ID: "counter"}); err != nil {
		t.Fatal(err)
	}
	const rounds = 4
	acknowledged := map[string]bool{}
	for round := range rounds {
		cmd := command()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acknowledged[lines.Text()] = true
			if n == 10+7*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait() //nolint:errcheck // it was killed
	}
	if len(acknowledged) < rounds*10 {
		t.Fatalf("only %d changes were acknowledged", len(acknowledged))
	}
	stored := checkWhole(t, c, acknowledged)
	if stored > len(acknowledged)+rounds {
		t.Errorf("%d changes are stored, and %d were acknowledged by %d processes", stored, len(acknowledged), rounds)
	}
	for _, span := range []catalog.Span{catalog.Hourly, catalog.Daily} {
		used, err := c.Usage(ctx, crashNamespace, catalog.UsedQuery{Entity: "counter", Span: span, From: midnight, To: midnight.AddDate(0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if len(used.Used) != 1 || used.Used[0].Count < int64(len(acknowledged)) || used.Used[0].Count > int64(len(acknowledged)+rounds) {
			t.Errorf("usage by the %s: %+v, want %d to %d", span, used.Used, len(acknowledged), len(acknowledged)+rounds)
		}
	}
	t.Logf("%d processes killed, %d changes acknowledged, %d stored", rounds, len(acknowledged), stored)
}

// checkWhole answers how many changes are stored, each as a whole.
func checkWhole(t *testing.T, c *catalog.Catalog, acknowledged map[string]bool) int {
	t.Helper()
	ctx := t.Context()
	page, err := c.Entities(ctx, crashNamespace, catalog.EntityQuery{Parent: "counter", Max: 1000})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for _, e := range page.Entities {
		stored[e.ID] = true
		limits, err := c.ListLimits(ctx, crashNamespace, catalog.LimitsQuery{Entity: e.ID})
		if err != nil {
			t.Fatal(err)
		}
		events, err := c.Audit(ctx, crashNamespace, catalog.AuditQuery{Subject: e.ID})
		if err != nil {
			t.Fatal(err)
		}
		if len(limits.Limits) != 2 || len(events.Events) != 3 {
			text, _ := json.Marshal(events.Events)
			t.Errorf("%s has %d limits and %d events, want 2 and 3: %s", e.ID, len(limits.Limits), len(events.Events), text)
		}
	}
	for id := range acknowledged {
		if !stored[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	limits, err := c.ListLimits(ctx, crashNamespace, catalog.LimitsQuery{Max: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(limits.Limits) != 2*len(stored) {
		t.Errorf("%d limits for %d entities", len(limits.Limits), len(stored))
	}
	return len(stored)
}
