package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/background"
	"github.com/sluice-go/sluice/internal/backoff"
)

// defaultAuditKeep is how long changes stay in the audit log where it is archived
// by schedule.
const defaultAuditKeep = 90 * 24 * time.Hour

// archiver moves old changes from the audit log to a folder.
type archiver struct {
	catalog *catalog.Catalog
	folder  string
	keep    time.Duration
	log     *slog.Logger
}

// checkArchive reports what is wrong with the settings of an archive. said reports
// which flags were given.
func (f *serveFlags) checkArchive(said func(flag string) bool) error {
	if f.auditFolder == "" {
		if said("audit-keep") {
			return errors.New("--audit-keep: is about --audit-archive, which is not given: nothing leaves the audit log")
		}
		return nil
	}
	if info, err := os.Stat(f.auditFolder); err != nil || !info.IsDir() {
		return fmt.Errorf("--audit-archive: %s: must be a folder", f.auditFolder)
	}
	if keep := time.Duration(f.auditKeep); keep < 24*time.Hour {
		return fmt.Errorf("--audit-keep: %s: must be a day at least", keep)
	}
	return nil
}

// archiveAudit archives the audit log when the node starts and every midnight, in
// UTC, until it is closed. It does nothing without a folder.
func (s *stack) archiveAudit(folder string, keep time.Duration, log *slog.Logger) {
	if folder == "" {
		return
	}
	a := &archiver{s.catalog, folder, keep, log}
	work := background.New()
	s.closers = append(s.closers, work.Close)
	work.Go(func() { daily(work.Life(), a.run) })
}

// daily calls do now and every midnight, in UTC.
func daily(ctx context.Context, do func(ctx context.Context, today time.Time)) {
	const day = 24 * time.Hour
	for {
		today := time.Now().UTC().Truncate(day)
		do(ctx, today)
		if !backoff.Sleep(ctx, time.Until(today.Add(day))) {
			return
		}
	}
}

// run archives what is older than it is to be kept, of every namespace.
func (a *archiver) run(ctx context.Context, today time.Time) {
	before := today.Add(-a.keep)
	for cursor := ""; ; {
		page, err := a.catalog.Namespaces(ctx, cursor, 0)
		if err != nil {
			a.log.Error("audit log not archived", "error", err)
			return
		}
		for _, namespace := range page.Namespaces {
			path := filepath.Join(a.folder, archiveName(namespace.Name, before))
			n, err := moveAudit(path, func(w io.Writer) error {
				_, err := a.catalog.Archive(ctx, namespace.Name, before, w)
				return err
			}, func(n int) error {
				return a.catalog.Edit(namespace.Name, catalog.By{Actor: "sluice", Reason: "archived by schedule"}).PruneArchived(ctx, before, n)
			})
			switch {
			case err != nil && ctx.Err() == nil:
				a.log.Error("audit log not archived", "namespace", namespace.Name, "error", err)
			case err == nil && n > 0:
				a.log.Info("audit log archived", "namespace", namespace.Name, "file", path, "changes", n)
			}
		}
		if cursor = page.Next; cursor == "" {
			return
		}
	}
}
