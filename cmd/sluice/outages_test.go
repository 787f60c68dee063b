package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	outageDir    = flag.String("outages.dir", "", "the folder that TestOutages writes what it finds to, one file for each; none means the short ones, quickly")
	outageBinary = flag.String("outages.binary", "", "the sluice that TestOutages runs, if not this one; scripts/outages builds an earlier one")
	outageLabel  = flag.String("outages.label", "now", "what to call that sluice: now, or before")
)

// outageRun is one outage as it was seen with one sluice.
type outageRun struct {
	Name, Label      string
	From, To, Length time.Duration // of the outage, and of the run
	Figures          outageFigures
	Counts           [][outcomes]int // in each outageStep
	States           [][]string      // of each node, in each outageStep
}

// TestOutages has a crowd of callers ask three nodes, in processes of their own,
// while the store that the nodes share fails and comes back. Nobody else does
// anything.
//
// It runs as make outages, which tries everything and compares with an earlier
// commit; go test alone tries what is short, and judges it by counts.
func TestOutages(t *testing.T) {
	for _, o := range outages {
		if *outageDir == "" && !o.short {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			if *outageDir != "" {
				write(t, o.play(t, true))
				return
			}
			o.judge(t, o.play(t, false))
		})
	}
}

// judge fails the test if callers saw more of the outage than they should.
func (o *outage) judge(t *testing.T, r *outageRun) {
	f := &r.Figures
	t.Logf("%+v", *f)
	if f.Answers == 0 || f.Early["pro"] == 0 {
		t.Error("nobody asked")
	}
	if f.Errors > 0 {
		t.Errorf("%d of %d answers were errors, the first %s", f.Errors, f.Answers, f.Error)
	}
	if f.Banned > 0 {
		t.Errorf("%d calls within the limit were answered with a ban", f.Banned)
	}
	for name, all := range f.Early {
		if n := f.Refused[name]; n > max(3, all/100) { // on a busy machine a short run has few calls
			t.Errorf("%d of %d calls within the limit were refused (%s)", n, all, name)
		}
	}
	if f.Over > 0 || f.Quota > 0 {
		t.Errorf("%g more passed than a limit allows by the store's decisions, %g more than a local quota allows", f.Over, f.Quota)
	}
	for node, states := range r.States {
		if last := states[len(states)-1]; last != "normal" {
			t.Errorf("node %d ended %s", node, last)
		}
	}
}

// play starts a store and three nodes, has the store fail and come back, and
// waits until all is normal again.
func (o *outage) play(t *testing.T, long bool) *outageRun {
	store := o.start(t)
	binary, dir := os.Args[0], t.TempDir()
	if *outageBinary != "" {
		binary = *outageBinary
	}
	policy := writeFile(t, dir, "policy.yaml", outagePolicy)
	for i := range 3 {
		store.nodes = append(store.nodes, beginAs(t, binary, "serve", "--store", store.store, "--policy", policy,
			"--catalog", filepath.Join(dir, fmt.Sprint(i, ".db")), "--admin-listen", "127.0.0.1:0"))
	}
	before, after, most := time.Second, time.Second, time.Minute
	if long {
		before, after, most = 4*time.Second, 10*time.Second, 100*time.Second
	}
	c := gather(t, store.nodes, long)
	eventually(t, "a store in order", func() bool { return c.calm(int(before / outageStep)) })
	from := time.Since(c.start)
	store.fail()
	time.Sleep(o.lasts)
	to := time.Since(c.start)
	store.mend()
	time.Sleep(after)
	for end := time.Now().Add(most); !c.calm(int(time.Second/outageStep)) && time.Now().Before(end); {
		time.Sleep(outageStep)
	}
	c.leave()
	r := &outageRun{Name: o.name, Label: *outageLabel, From: from, To: to, Length: time.Since(c.start), Figures: c.figures(from, to), States: c.states}
	r.Counts = make([][outcomes]int, r.Length/outageStep+1)
	for i := range c.answers {
		if a := &c.answers[i]; outageCallers[a.kind].name != web { // which are not told who decided
			r.Counts[a.begun/outageStep][a.outcome]++
		}
	}
	return r
}

// write keeps a run for the page, and draws it beside those of the same outage.
func write(t *testing.T, r *outageRun) {
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, *outageDir, r.Name+"."+r.Label+".json", string(text))
	t.Logf("%+v", r.Figures)
}

// readRun reads a run, or returns nil if there is none.
func readRun(t *testing.T, name, label string) *outageRun {
	text, err := os.ReadFile(filepath.Join(*outageDir, name+"."+label+".json"))
	if os.IsNotExist(err) {
		return nil
	}
	r := &outageRun{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOutagesPage writes the table and the pictures of what TestOutages found.
func TestOutagesPage(t *testing.T) {
	var page strings.Builder
	dir := *outageDir
	page.WriteString(outageTableHead)
	for _, o := range outages {
		var runs []*outageRun
		for _, label := range []string{"before", "now"} {
			if dir == "" {
				runs = append(runs, exampleRun(label))
			} else if r := readRun(t, o.name, label); r != nil {
				runs = append(runs, r)
			}
		}
		if len(runs) == 0 {
			continue
		}
		picture := drawOutage(o.what, runs)
		checkPicture(t, picture)
		page.WriteString(outageRows(&o, runs))
		if dir != "" {
			writeFile(t, dir, o.name+".svg", string(picture))
		}
	}
	if dir != "" {
		writeFile(t, dir, "table.md", page.String())
	}
}
