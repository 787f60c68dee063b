package main

import (
	"context"
	"errors"
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
sluice audit archive --before 90d -o audit.jsonl.gz && sluice audit prune --before 90d --yes`,
	}, auditListCommand(), auditArchiveCommand(), auditPruneCommand())
}

func auditListCommand() *cobra.Command {
	var from, to instant
	var oldest bool
	var most length
	return online(&cobra.Command{
		Use: "list [SUBJECT]", Short: "list changes, newest first",
		Long: `A subject is an entity's id, $SYSTEM, $RESOURCE:name, $TIER:name or
$NAMESPACE:name. With --json each change includes
the subject before and after it.`,
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
		return printList(c, err, "events", all, more, newTable("TIME", "WHO", "FROM", "DID", "TO", "REASON"), func(e *catalog.Event) []string {
			return []string{moment(e.Time), e.Actor, e.From, e.Action, e.Subject, e.Reason}
		})
	})
}

func auditArchiveCommand() *cobra.Command {
	var before instant
	var path string
	return online(&cobra.Command{
		Use: "archive", Short: "write the changes before a time to a file of gzipped JSON lines",
		Long:    `The log keeps them until prune removes them.`,
		Example: "sluice audit archive --before 90d -o audit.jsonl.gz",
	}, func(f *pflag.FlagSet) {
		f.Var(&before, "before", "`time`, or 90d for ninety days ago")
		f.StringVarP(&path, "output", "o", "", "`file` to write; - is standard output")
	}, func(ctx context.Context, c *call) error {
		if before.IsZero() || path == "" {
			return c.wrong("want --before and --output")
		}
		c.recorder.on = false // it is not JSON, and can be long
		if path == "-" {
			return c.client.ArchiveAudit(ctx, before.Time, c.stdout)
		}
		n, err := writeWhole(path, func(w io.Writer) error { return c.client.ArchiveAudit(ctx, before.Time, w) })
		if err != nil {
			return err
		}
		return c.print(map[string]any{"file": path, "bytes": n, "before": before.UTC().Format(time.RFC3339)}, fmt.Sprintf("%s: %d bytes, the changes before %s\n", path, n, moment(before.Time)))
	})
}

// writeWhole writes a file that appears under its name only when it is
// complete.
func writeWhole(path string, write func(io.Writer) error) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".sluice-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		n, err = f.Seek(0, io.SeekEnd)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return n, os.Rename(f.Name(), path)
}

func auditPruneCommand() *cobra.Command {
	var before instant
	var reason reasonFlag
	var sure sureFlag
	return online(&cobra.Command{
		Use: "prune", Short: "remove the changes before a time from the log",
		Example: "sluice audit prune --before 90d --yes",
	}, func(f *pflag.FlagSet) {
		f.Var(&before, "before", "`time`, or 90d for ninety days ago")
		reason.define(f)
		sure.define(f)
	}, func(ctx context.Context, c *call) error {
		if before.IsZero() {
			return c.wrong("want --before")
		}
		if err := sure.check(c, "this cannot be undone, so archive the events first"); err != nil {
			return err
		}
		n, err := reason.client(c).PruneAudit(ctx, before.Time)
		return c.done(err, "removed %d changes before %s", n, moment(before.Time))
	})
}
