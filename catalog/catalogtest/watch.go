package catalogtest

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

func watchChecks() []Check {
	return []Check{{"changes are heard of", checkWatch}}
}

func checkWatch(t *testing.T, open Open) {
	s := newStage(t, open)
	watching := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan catalog.Changed, 1000)
	ended := make(chan error, 1)
	go func() { ended <- watching.Watch(ctx, func(c catalog.Changed) { heard <- c }) }()
	next := func(what string, want catalog.Changed) {
		t.Helper()
		timeout := time.After(time.Minute)
		for {
			select {
			case c := <-heard:
				if c == want {
					return
				}
				if c.Namespace == s.namespace && c.Kind != catalog.KindGuard {
					t.Errorf("%s: heard of %+v, want %+v", what, c, want)
				}
			case <-timeout:
				t.Fatalf("%s: nothing heard, want %+v", what, want)
			}
		}
	}
	next("the beginning", catalog.Changed{All: true})
	began := time.Now()
	s.put(s.record("alice"))
	next("a put", catalog.Changed{Namespace: s.namespace, Kind: catalog.KindEntity, ID: "alice"})
	t.Logf("a change was heard of after %s", time.Since(began).Round(time.Millisecond))
	s.change(&catalog.Batch{Namespace: s.namespace, Mutations: []catalog.Mutation{
		{Op: catalog.Check, Record: s.record("alice"), If: catalog.IfPresent},
		{Op: catalog.Put, Record: catalog.Record{RecordKey: s.key(catalog.KindEntityLimits, "alice", "api"), Data: []byte(`{}`)}, If: catalog.IfAny},
	}})
	next("limits", catalog.Changed{Namespace: s.namespace, Kind: catalog.KindEntityLimits, ID: "alice"})
	s.change(&catalog.Batch{Namespace: s.namespace, Mutations: []catalog.Mutation{{Op: catalog.Delete, Record: s.record("alice"), If: catalog.IfPresent}}})
	next("a delete", catalog.Changed{Namespace: s.namespace, Kind: catalog.KindEntity, ID: "alice"})
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Watch returned no reason")
		}
	case <-time.After(time.Minute):
		t.Error("Watch did not end with its context")
	}
}
