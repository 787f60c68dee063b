package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// What is old enough is moved to a file for each namespace, once, and nothing is
// lost if the file cannot be written.
func TestTheAuditLogIsArchivedBySchedule(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	clock := testclock.New(time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC))
	db, err := sqlite.Open(ctx, filepath.Join(dir, "sluice.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cat, err := catalog.Open(ctx, catalog.Config{Store: catalogstore.New(db), Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	create := func(namespace, id string) {
		t.Helper()
		if _, err := cat.Edit(namespace, catalog.By{Actor: "alice"}).CreateEntity(ctx, catalog.Entity{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := cat.Edit("shop", catalog.By{Actor: "alice"}).CreateNamespace(ctx, ""); err != nil {
		t.Fatal(err)
	}
	create("default", "old")
	create("shop", "oldest")
	clock.Advance(40 * 24 * time.Hour)
	create("default", "new")
	clock.Advance(time.Second) // what is pruned is noted after it
	folder := filepath.Join(dir, "archive")
	var log bytes.Buffer
	a := archiver{cat, folder, 30 * 24 * time.Hour, slog.New(slog.NewTextHandler(&log, nil))}
	logged := func(namespace string) (text string) {
		t.Helper()
		page, err := cat.Audit(ctx, namespace, catalog.AuditQuery{Oldest: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			text += e.Action + " " + e.Subject + "; "
		}
		return text
	}
	today := clock.Now().Truncate(24 * time.Hour)
	a.run(ctx, today) // there is no folder
	if got := logged("default"); got != "entity.create old; entity.create new; " || !strings.Contains(log.String(), "audit log not archived") {
		t.Fatalf("without a folder the log has %q and says %s", got, &log)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to do
		a.run(ctx, today)
		if got := logged("default"); got != "entity.create new; audit.prune $SYSTEM; " {
			t.Fatalf("afterwards the log has %q: %s", got, &log)
		}
	}
	if got := logged("shop"); got != "audit.prune $SYSTEM; " {
		t.Errorf("the log of another namespace has %q", got)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := countArchived(f); n != 1 || err != nil {
			t.Errorf("%s has %d changes, %v", file, n, err)
		}
		f.Close()
	}
}

func TestDaily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var days []string
		time.Sleep(time.Until(time.Date(2001, 2, 3, 23, 59, 0, 0, time.UTC)))
		go daily(ctx, func(_ context.Context, today time.Time) {
			days = append(days, today.Format("02")+time.Now().UTC().Format(" at 02 15:04"))
		})
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		cancel()
		if got := strings.Join(days, ", "); got != "03 at 03 23:59, 04 at 04 00:00, 05 at 05 00:00" {
			t.Error(got)
		}
	})
}
