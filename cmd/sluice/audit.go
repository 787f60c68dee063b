package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func auditCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "audit", Short: "read, archive and prune the audit log",
		Example: `sluice audit list alice
sluice audit archive --before 90d -o /var/archive/sluice/`,
	}, auditListCommand(), auditArchiveCommand(), auditPruneCommand())
}

func auditListCommand() *cobra.Command {
	var from, to instant
	var oldest bool
	var most length
	return online(&cobra.Command{
		Use: "list [SUBJECT]", Short: "list changes, newest first",
		Long: `A subject is an entity's id, $SYSTEM, $RESOURCE:name, $TIER:name,
$NAMESPACE:name, or $NAMESPACE for all namespaces. CHANGE shows what is
different from before; --json has the whole subject before and after.`,
		Example: `sluice audit list
sluice audit list alice --from 7d
sluice audit list '$SYSTEM' --json`,
	}, func(f *pflag.FlagSet) {
		f.Var(&from, "from", "start `time`, or 7d for seven days ago")
		f.Var(&to, "to", "end `time`")
		f.BoolVar(&oldest, "oldest", false, "list the oldest first")
		most.define(f)
	}, func(ctx context.Context, c *call) error {
		q := catalog.AuditQuery{Subject: c.arg(0), From: from.Time, To: to.Time, Oldest: oldest}
		all, more, err := collect(c, most, func(p client.Page) ([]catalog.Event, string, error) {
			q.Cursor, q.Max = p.Cursor, p.Max
			page, err := c.client.Audit(ctx, q)
			return page.Events, page.Next, err
		})
		return printList(c, err, "events", all, more, newTable("TIME", "WHO", "FROM", "DID", "TO", "CHANGE", "REASON"), func(e *catalog.Event) []string {
			return []string{moment(e.Time), e.Actor, e.From, e.Action, e.Subject, difference(e.Before, e.After), e.Reason}
		})
	})
}

func auditArchiveCommand() *cobra.Command {
	var before instant
	var path string
	var keep bool
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "archive", Short: "move the changes before a time from the log to a file of gzipped JSON lines",
		Long: `The file is written, read back, and only then are the changes that are in it
removed from the log. A file that exists is never overwritten; in a folder each
archive gets a name of its own. If anything goes wrong, the log is left as it is.`,
		Example: `sluice audit archive --before 90d -o /var/archive/sluice/
sluice audit archive --before 2026-01-01 -o 2025.jsonl.gz --keep`,
	}, func(f *pflag.FlagSet) {
		f.Var(&before, "before", "`time`, or 90d for ninety days ago")
		f.StringVarP(&path, "output", "o", "", "`file` or folder to write to; - is standard output, with --keep")
		f.BoolVar(&keep, "keep", false, "leave the changes in the log")
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		if before.IsZero() || path == "" {
			return c.wrong("want --before and --output")
		}
		c.recorder.on = false // it is not JSON, and can be long
		before.Time = before.Truncate(time.Microsecond)
		if path == "-" {
			if !keep {
				return c.wrong("want --keep with -o -: nobody can tell here whether the output is safe")
			}
			return c.client.ArchiveAudit(ctx, before.Time, c.stdout)
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, archiveName(c.namespace, before.Time))
		}
		prune := func(n int) error { return reason.client(c).PruneArchivedAudit(ctx, before.Time, n) }
		if keep {
			prune = func(int) error { return nil }
		}
		n, err := moveAudit(path, func(w io.Writer) error { return c.client.ArchiveAudit(ctx, before.Time, w) }, prune)
		if err != nil {
			return err
		}
		if n == 0 {
			path = ""
		}
		text := fmt.Sprintf("%s: %d changes before %s", path, n, moment(before.Time))
		switch {
		case n == 0:
			text = "no changes before " + moment(before.Time)
		case !keep:
			text += ", removed from the log"
		}
		return c.print(map[string]any{"file": path, "events": n, "before": before.UTC(), "removed": !keep && n > 0}, text+"\n")
	})
}

func auditPruneCommand() *cobra.Command {
	var before instant
	var reason reasonFlag
	var sure sureFlag
	return online(&cobra.Command{
		Use: "prune", Short: "remove the changes before a time from the log without an archive",
		Example: "sluice audit prune --before 90d --yes",
	}, func(f *pflag.FlagSet) {
		f.Var(&before, "before", "`time`, or 90d for ninety days ago")
		reason.define(f)
		sure.define(f)
	}, func(ctx context.Context, c *call) error {
		if before.IsZero() {
			return c.wrong("want --before")
		}
		if err := sure.check(c, "this cannot be undone, and audit archive keeps what it removes"); err != nil {
			return err
		}
		n, err := reason.client(c).PruneAudit(ctx, before.Time)
		return c.done(err, "removed %d changes before %s", n, moment(before.Time))
	})
}
