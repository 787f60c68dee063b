package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestArchiveIsWholeOrNotThere, and replaces nothing.
func TestArchiveIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl.gz")
	if _, err := writeNew(path, func(f *os.File) (int, error) {
		_, err := f.WriteString("half")
		return 1, errors.Join(err, os.ErrClosed)
	}); err == nil {
		t.Error("no error")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("there is %v, %v", files, err)
	}
	writeFile(t, dir, "audit.jsonl.gz", "an older archive")
	if _, err := writeNew(path, func(f *os.File) (int, error) { return f.WriteString("another") }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "an older archive" {
		t.Errorf("%q, %v", text, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("there is %v, %v", files, err)
	}
}

// TestArchivingLosesNothing: every change is in one of the archives or in the
// log, whatever happens while they are written.
func TestArchivingLosesNothing(t *testing.T) {
	s := openServer(t)
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		s.ok(t, "entity", "create", name)
	}
	first := s.clock.Now().Add(time.Minute)
	s.clock.Advance(time.Hour)
	s.ok(t, "entity", "create", "d")
	s.clock.Advance(time.Hour)
	at := first.Format(time.RFC3339)
	if got := s.ok(t, "audit", "archive", "--before", at, "-o", dir); !strings.Contains(got, ": 3 changes before") || !strings.Contains(got, "removed from the log") {
		t.Error(got)
	}
	list := s.ok(t, "audit", "list", "--oldest")
	if strings.Contains(list, "entity.create  a ") || !strings.Contains(list, "entity.create  d") || !strings.Contains(list, "audit.prune") {
		t.Error(list)
	}
	if got := s.ok(t, "audit", "archive", "--before", at, "-o", dir); got != "no changes before 2040-01-02 03:05:05Z\n" {
		t.Error(got)
	}
	next := s.clock.Now().Add(-time.Minute).Format(time.RFC3339)
	path := filepath.Join(dir, "kept.jsonl.gz")
	s.ok(t, "audit", "archive", "--before", next, "-o", path, "--keep")
	again := s.sluice(t, "", "audit", "archive", "--before", next, "-o", path)
	if again.code != 2 || !strings.Contains(again.stderr, "file exists") {
		t.Errorf("%+v", again)
	}
	if list := s.ok(t, "audit", "list"); !strings.Contains(list, "entity.create  d") {
		t.Errorf("it is gone, and was not archived:\n%s", list)
	}
	if got := s.sluice(t, "", "audit", "archive", "--before", next, "-o", "-"); got.code != 2 || !strings.Contains(got.stderr, "--keep") {
		t.Errorf("%+v", got)
	}
}

// TestAuditShowsWhatChanged, of namespaces too.
func TestAuditShowsWhatChanged(t *testing.T) {
	s := openServer(t)
	s.ok(t, "system", "set", "rpm=100/minute")
	s.ok(t, "system", "set", "rpm=200/minute")
	if got := s.ok(t, "audit", "list", "$SYSTEM"); !strings.Contains(got, "100/minute -> 200/minute") {
		t.Error(got)
	}
	s.ok(t, "namespace", "create", "shop")
	s.ok(t, "namespace", "create", "mall")
	if got := s.ok(t, "audit", "list", "$NAMESPACE:shop"); !strings.Contains(got, "$NAMESPACE:shop") || strings.Contains(got, "mall") {
		t.Error(got)
	}
	if got := s.ok(t, "audit", "list", "$NAMESPACE"); !strings.Contains(got, "$NAMESPACE:shop") || !strings.Contains(got, "$NAMESPACE:mall") {
		t.Error(got)
	}
}
