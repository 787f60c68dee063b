package main

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

var (
	namesCount = flag.Int("names.count", 6000, "how many names TestMadeUpNames makes up")
	namesBound = flag.Int("names.bound", 1000, "how many buckets in memory and series of usage it has the server keep")
)

// TestMadeUpNames has callers make up entities and addresses without end. Once
// there are as many as the server keeps, they cost no more room, in memory or on
// disk; sums of usage stay right; and those who were there before have their
// limits as they had them.
func TestMadeUpNames(t *testing.T) {
	bound := strconv.Itoa(*namesBound)
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "sluice.db")
		disk := func() (bytes int64) {
			err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				if err == nil {
					bytes += info.Size()
				}
				return nil // a snapshot was renamed meanwhile
			})
			if err != nil {
				t.Fatal(err)
			}
			return bytes
		}
		// Buckets that are not full again before the end, so that none can be
		// evicted for the next.
		f := newFlood(t, "10/day burst 20", disk, "--catalog", file, "--memory-buckets", bound, "--usage-series", bound)
		f.run(*namesCount)
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		f.check(func(query string) (n int64) {
			if err := db.QueryRow(strings.ReplaceAll(query, "sluice.", "")).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		})
	})
	t.Run("postgres", func(t *testing.T) {
		at := postgrestest.Start(t).Database(t)
		number := func(query string) int64 { return postgrestest.Number(t, at, query) }
		disk := func() int64 { return number("SELECT pg_database_size(current_database())") }
		f := newFlood(t, "100/s burst 20", disk, "--store", at, "--catalog", at, "--usage-series", bound)
		f.run(*namesCount)
		f.check(number)
	})
}

// flood is a server and callers with names that they make up.
type flood struct {
	t       *testing.T
	p       *process
	api     *client.Client
	disk    func() int64
	made    atomic.Int64 // names
	allowed atomic.Int64 // takes
	room    [][2]int64   // on disk and in memory, after each tenth
}

const vaultLimit = 20

// newFlood starts a server at which one entity has used up a limit, and another
// half of it.
func newFlood(t *testing.T, limit string, disk func() int64, args ...string) *flood {
	t.Helper()
	policy := writeFile(t, t.TempDir(), "policy.yaml", fmt.Sprintf(`
version: 1
identity: {address: {trusted_proxies: [127.0.0.0/8]}}
limits: {everything: {per: ip, limit: %[1]s}}
system: {limit: {all: %[1]s}}
degraded: {timeout: 10s} # a slow machine is no outage
`, limit))
	f := &flood{t: t, disk: disk}
	f.p = begin(t, append([]string{"serve", "--policy", policy}, args...)...)
	f.api = f.p.ask(t)
	if _, err := f.api.SetLimits(t.Context(), catalog.Scope{Resource: "vault"},
		catalog.Limits{"all": {Limit: sluice.MustParse(fmt.Sprintf("1/day burst %d", vaultLimit))}}, 0); err != nil {
		t.Fatal(err)
	}
	f.wantVault("spent", vaultLimit, true)
	f.wantVault("half", vaultLimit/2, true)
	return f
}

func (f *flood) wantVault(entity string, n int64, allowed bool) {
	f.t.Helper()
	d, err := f.api.Take(f.t.Context(), client.Take{Entity: entity, Resource: "vault", Cost: sluice.Tokens(n)})
	if err != nil || d.Allowed != allowed {
		f.t.Errorf("%s takes %d: %+v, %v, want allowed: %v", entity, n, d, err, allowed)
	}
	if d.Allowed {
		f.allowed.Add(n)
	}
}

// run has callers make up names, half of them entities and half addresses, and
// looks at the room that they need after each tenth.
func (f *flood) run(names int) {
	f.t.Helper()
	for tenth := range 10 {
		last := int64(names * (tenth + 1) / 10)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := f.made.Add(1); i <= last && !f.t.Failed(); i = f.made.Add(1) {
					f.ask(int(i))
				}
			})
		}
		wg.Wait()
		f.made.Store(last)
		f.room = append(f.room, [2]int64{f.disk(), resident(f.t, f.p.command.Process.Pid)})
		f.t.Logf("%8d names: %6.1f MB on disk, %6.1f MB in memory", last, float64(f.room[tenth][0])/1e6, float64(f.room[tenth][1])/1e6)
	}
	f.wantVault("spent", 1, false)
	f.wantVault("half", vaultLimit/2, true)
	f.wantVault("half", 1, false)
}

// ask takes once with name number i.
func (f *flood) ask(i int) {
	method, path, body := http.MethodPost, "/v1/take", fmt.Sprintf(`{"entity":"made-up-%x","resource":"api"}`, i*2654435761)
	if i%2 == 0 {
		method, path, body = http.MethodGet, "/auth", ""
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.p.url()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		f.t.Error(err)
		return
	}
	if i%2 == 0 {
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("%d.%d.%d.%d", 11+i>>24, i>>16&255, i>>8&255, i&255))
		r.Header.Set("X-Forwarded-Method", "GET")
		r.Header.Set("X-Forwarded-Uri", "/")
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := f.p.transport.RoundTrip(r)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err == nil && response.StatusCode == http.StatusOK:
		f.allowed.Add(1)
	case err != nil || response.StatusCode != http.StatusTooManyRequests: // those who share a bucket empty it
		f.t.Errorf("%s %s: %d %s, %v", method, path, response.StatusCode, text, err)
	}
}

// check stops the server and looks at what it has kept.
func (f *flood) check(number func(query string) int64) {
	f.t.Helper()
	f.p.signal(f.t, syscall.SIGTERM)
	<-f.p.rest
	if err := f.p.command.Wait(); err != nil {
		f.t.Errorf("it ended with %v\n%s", err, &f.p.stderr)
	}
	f.p.ended = true
	// Other and the vault's are beyond the bound.
	series := number("SELECT count(*) FROM sluice.catalog_series")
	if series > int64(*namesBound)+10 {
		f.t.Errorf("%d series are stored, want %d at most", series, *namesBound)
	}
	used := number("SELECT CAST(sum(amount) AS bigint) FROM sluice.catalog_usage WHERE span = 'total'")
	if used != 1000*f.allowed.Load() {
		f.t.Errorf("usage is %d thousandths in all, want %d tokens", used, f.allowed.Load())
	}
	f.t.Logf("%d takes were allowed, %d series are stored", f.allowed.Load(), series)
	half, end := f.room[4], f.room[9]
	if end[0] > half[0]+half[0]/5+4<<20 || end[1] > half[1]+half[1]/4+32<<20 {
		f.t.Errorf("room on disk and in memory after half of the names: %d, and after all: %d", half, end)
	}
}

// resident is how much memory a process has, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
