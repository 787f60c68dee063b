package memory_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

func TestSnapshotBringsEverythingBack(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	config := memory.Config{Snapshot: filepath.Join(t.TempDir(), "state"), Clock: clock.Now}
	limits := []string{"10/hour burst 7", "10/hour sliding", "10/hour fixed", "50/month Europe/Madrid"}
	s := open(t, config)
	l := sluice.New(s)
	for i, limit := range limits {
		for range i + 2 {
			take(t, l, demand(fmt.Sprint("e", i), limit))
		}
	}
	inFlight := sluice.Take{ID: "lease-1", Keep: time.Hour, Demands: []sluice.Demand{
		{Key: sluice.Key{Entity: "llm", Limit: "parallel"}, Limit: sluice.MustParse("2 concurrent")},
		{Key: sluice.Key{Entity: "llm", Limit: "tpm"}, Limit: sluice.MustParse("1000/minute"), Cost: sluice.Tokens(400)},
	}}
	if lease, d, err := l.Acquire(ctx, inFlight); err != nil || lease == nil {
		t.Fatalf("acquire: %+v, %v", d, err)
	}
	hold := sluice.HoldRequest{
		Key: sluice.Key{Entity: "held"}, Limit: sluice.MustParse("10/minute"),
		ID: sluice.HoldID{Node: 1, Seq: 1}, Max: sluice.Tokens(4), TTL: time.Minute,
	}
	grants := make([]sluice.Grant, 1)
	if err := s.Hold(ctx, []sluice.HoldRequest{hold}, grants); err != nil || grants[0].Amount.Thousandths() != 4*sluice.Token {
		t.Fatalf("hold: %+v, %v", grants[0], err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	clock.Advance(time.Second)
	s = open(t, config)
	l = sluice.New(s)
	for i, limit := range limits {
		d, err := l.Peek(ctx, demand(fmt.Sprint("e", i), limit))
		if err != nil {
			t.Fatal(err)
		}
		used := d.Demands[0].Limit.Capacity().Thousandths() - d.Results[0].Remaining.Thousandths()
		want := int64(i+2) * sluice.Token
		if i == 0 {
			want -= 2 // a second's refill of 10 an hour, in millitokens
		}
		if used != want {
			t.Errorf("%s: %s used after loading, want %s", limit, sluice.Thousandths(used), sluice.Thousandths(want))
		}
	}
	d, err := l.Lease("lease-1").Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(100)})
	if err != nil || d.Results[1].Consumed.Thousandths() != -300*sluice.Token || d.Results[0].Remaining.Thousandths() != 2*sluice.Token {
		t.Errorf("committing a lease from the snapshot: %+v, %v", d, err)
	}
	var again sluice.Decision
	if err := l.Decide(ctx, &sluice.Take{ID: "lease-1", Lease: true, Keep: time.Hour, Demands: inFlight.Demands}, &again); err != nil || !again.Repeated {
		t.Errorf("repeating a take from before the snapshot: %+v, %v", again, err)
	}
	if err := s.Return(ctx, []sluice.HoldReturn{{Key: hold.Key, Limit: hold.Limit, ID: hold.ID, Spent: sluice.Tokens(1)}}); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Peek(ctx, sluice.Demand{Key: hold.Key, Limit: hold.Limit}); err != nil || d.Results[0].Remaining.Thousandths() != 9*sluice.Token {
		t.Errorf("after returning a hold from the snapshot: %+v, %v", d, err)
	}
}

// TestASnapshotIsReadByLaterVersions reads a file that was written when the
// holders of a concurrency limit had another name in Go.
func TestASnapshotIsReadByLaterVersions(t *testing.T) {
	content, err := os.ReadFile("testdata/lease.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	clock := newClock()
	config := memory.Config{Snapshot: filepath.Join(t.TempDir(), "state"), Clock: clock.Now}
	if err := os.WriteFile(config.Snapshot, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, config)
	l, two := sluice.New(s), demand("a", "2 concurrent")
	if d, err := l.Peek(t.Context(), two); err != nil || d.Results[0].Remaining.Thousandths() != sluice.Token || d.Results[0].ResetAfter != time.Hour {
		t.Errorf("with a lease of an hour open: %+v, %v", d, err)
	}
	if err := l.Lease("lease-1").Release(t.Context()); err != nil {
		t.Error(err)
	}
	if d, err := l.Peek(t.Context(), two); err != nil || d.Results[0].Remaining.Thousandths() != 2*sluice.Token {
		t.Errorf("after it was released: %+v, %v", d, err)
	}
}

func TestDamagedSnapshotIsSetAside(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "state")
	s := open(t, memory.Config{Snapshot: whole})
	for i := range 20 {
		take(t, sluice.New(s), demand(fmt.Sprint("e", i), "10/hour"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{
		"empty":     {},
		"cut":       good[:len(good)/2],
		"no end":    good[:strings.LastIndex(string(good), "end ")],
		"bit":       []byte(strings.Replace(string(good), `"Used":1000`, `"Used":1001`, 1)),
		"more":      append(append([]byte{}, good...), "x\n"...),
		"version":   []byte(strings.Replace(string(good), "snapshot 1", "snapshot 9", 1)),
		"not ours":  []byte("hello\nworld\n"),
		"zeroes":    make([]byte, 4096),
		"no record": []byte("sluice memory snapshot 1\n{}\nend 1 5c4d1d5e\n"),
	}
	for name, content := range damage {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, memory.Config{Snapshot: file, Log: quiet})
			if st := s.Stats(); st.DamagedSnapshots != 1 || st.Buckets != 0 {
				t.Errorf("stats: %+v, want an empty store that reports the damage", st)
			}
			if aside, err := os.ReadFile(file + ".damaged"); err != nil || string(aside) != string(content) {
				t.Errorf("the damaged file was not set aside: %v", err)
			}
			if d := take(t, sluice.New(s), demand("a", "1/s")); !d.Allowed {
				t.Error("the store does not work")
			}
		})
	}
}

func TestUnreadableSnapshotIsAnError(t *testing.T) {
	if _, err := memory.Open(memory.Config{Snapshot: t.TempDir(), Log: quiet}); err == nil {
		t.Error("a folder was accepted as a snapshot")
	}
}

// TestSnapshotSurvivesKill kills a process that saves all the time, at many
// moments, and expects a whole snapshot each time.
func TestSnapshotSurvivesKill(t *testing.T) {
	if file := os.Getenv("SLUICE_TEST_SAVER"); file != "" {
		saveForEver(file)
	}
	file := filepath.Join(t.TempDir(), "state") // not before: the other process leaves its own behind
	before := 0
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=TestSnapshotSurvivesKill")
		cmd.Env = append(os.Environ(), "SLUICE_TEST_SAVER="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Let it report a number of saves, a different one each round, and
		// kill it while the next is under way.
		saved := 0
		for lines := bufio.NewScanner(out); saved < before+round+1 && lines.Scan(); {
			saved, _ = strconv.Atoi(lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() //nolint:errcheck // it was killed
		s, err := memory.Open(memory.Config{Snapshot: file})
		if err != nil {
			t.Fatal(err)
		}
		st := s.Stats()
		d, err := sluice.New(s).Peek(context.Background(), demand("counter", "1000000000/day fixed"))
		if err != nil {
			t.Fatal(err)
		}
		used := int(d.Demands[0].Limit.Capacity().Thousandths()-d.Results[0].Remaining.Thousandths()) / int(sluice.Token)
		if st.DamagedSnapshots != 0 || used < saved {
			t.Fatalf("round %d: %d taken after %d were saved, stats %+v", round, used, saved, st)
		}
		before = used
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(file + ".tmp*")
	if err != nil || len(left) != 0 {
		t.Errorf("half-written files are left: %v, %v", left, err)
	}
}

func saveForEver(file string) {
	s, err := memory.Open(memory.Config{Snapshot: file, SnapshotEvery: time.Hour})
	if err != nil {
		panic(err)
	}
	l := sluice.New(s)
	for i := range 1000 {
		if _, err := l.Take(context.Background(), demand(fmt.Sprint("ballast", i), "10/day")); err != nil {
			panic(err)
		}
	}
	for {
		d, err := l.Take(context.Background(), demand("counter", "1000000000/day fixed"))
		if err != nil {
			panic(err)
		}
		if err := s.Save(); err != nil {
			panic(err)
		}
		fmt.Println((d.Demands[0].Limit.Capacity().Thousandths() - d.Results[0].Remaining.Thousandths()) / sluice.Token)
	}
}
