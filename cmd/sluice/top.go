package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
)

// topFlags are what top can be told.
type topFlags struct {
	entity, resource string
	once             bool
	every            period
	order            string
	most             int
}

func topCommand() *cobra.Command {
	t := topFlags{every: period(time.Second)}
	return online(&cobra.Command{
		Use: "top", Short: "watch the busiest buckets",
		Long: `Bars turn yellow at 70 % and red at 90 %. Keys: u sorts by utilization, r by
requests in the last minute, e by entity, q quits. Requests and waiting callers
are those of the node that answers. Without a terminal it prints once.`,
		Example: `sluice top
sluice top --resource chat --sort r
sluice top --once | head`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&t.entity, "entity", "", "only those of this `entity`")
		f.StringVar(&t.resource, "resource", "", "only those of this `resource`")
		f.BoolVar(&t.once, "once", false, "print once and exit")
		f.Var(&t.every, "every", "`duration` between refreshes (default 1s)")
		choose(f, &t.order, "sort", "u", "sort by utilization, requests or entity", "u", "r", "e")
		f.IntVar(&t.most, "max", 5000, "look at this `number` of buckets at most")
	}, func(ctx context.Context, c *call) error {
		if t.most < 1 || time.Duration(t.every) < 100*time.Millisecond {
			return c.wrong("want a --max above 0, and --every 100ms at least")
		}
		return t.run(ctx, c)
	})
}

// look is what the server says at one moment.
type look struct {
	at      time.Time
	buckets []client.Bucket
	more    bool   // there are buckets that were not looked at
	store   string // the state of a shared store
	err     error
}

func (t *topFlags) look(ctx context.Context, c *call) look {
	var store string
	all, more, err := collect(c, length(t.most), func(p client.Page) ([]client.Bucket, string, error) {
		page, err := c.client.Buckets(ctx, client.BucketQuery{Entity: t.entity, Resource: t.resource, Page: p})
		store = page.Store
		return page.Buckets, page.Next, err
	})
	return look{time.Now(), all, more, store, err}
}

// away reports whether the server answers, but its store does not.
func (l *look) away() bool {
	var answer *client.Error
	return errors.As(l.err, &answer) && errors.Is(answer, sluice.ErrUnavailable)
}

func asked(b *client.Bucket) int64 {
	if b.Node == nil {
		return 0
	}
	return b.Node.Allowed + b.Node.Refused + b.Node.Failed
}

// byName orders what is otherwise equal, so that rows do not jump about.
func byName(a, b *client.Bucket) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit))
}

// orders are what buckets can be sorted by.
var orders = map[string]func(a, b *client.Bucket) int{
	"u": func(a, b *client.Bucket) int {
		return cmp.Or(cmp.Compare(b.Utilization, a.Utilization), byName(a, b))
	},
	"r": func(a, b *client.Bucket) int {
		return cmp.Or(cmp.Compare(asked(b), asked(a)), cmp.Compare(b.Utilization, a.Utilization), byName(a, b))
	},
	"e": byName,
}

func (l *look) sort(order string) {
	by := orders[order]
	slices.SortFunc(l.buckets, func(a, b client.Bucket) int { return by(&a, &b) })
}

func (t *topFlags) run(ctx context.Context, c *call) error {
	first := t.look(ctx, c)
	if first.err != nil && !first.away() {
		return first.err
	}
	if !t.once && !c.json {
		terminal, ok, err := c.openTerminal()
		if err != nil {
			return err
		}
		if ok {
			return t.watch(ctx, c, terminal, first)
		}
	}
	if first.err != nil {
		return first.err
	}
	if away := storeText(first.store); away != "" {
		fmt.Fprintln(c.stderr, away) //nolint:errcheck // the table matters more
	}
	first.sort(t.order)
	return printList(c, nil, "buckets", first.buckets, first.more,
		newTable("ENTITY", "RESOURCE", "LIMIT", ">USED", "ALARM", ">LEFT", ">ALLOWED", ">REFUSED", ">WAITING", "FULL IN", "RULE"),
		func(b *client.Bucket) []string {
			allowed, refused, _ := recent(b.Node)
			return []string{
				b.Entity, b.Resource, b.Limit, percent(b.Utilization), string(b.Alarm), b.Remaining.String(),
				allowed, refused, inLine(&b.Activity), span(b.ResetAfter), b.RuleText(),
			}
		})
}

// watch shows what the server says, again and again, until q is pressed.
func (t *topFlags) watch(ctx context.Context, c *call, on *terminal, now look) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { err = cmp.Or(err, on.close()) }()
	looks := make(chan look)
	go func() {
		tick := time.NewTicker(time.Duration(t.every))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case <-ctx.Done():
				return
			case looks <- t.look(ctx, c):
			}
		}
	}()
	p := &painter{out: on.out, plain: os.Getenv("NO_COLOR") != ""}
	resized := time.NewTicker(250 * time.Millisecond)
	defer resized.Stop()
	for {
		width, height := on.size()
		now.sort(t.order)
		if err := p.paint(t.draw(c, &now, width, height)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized.C:
		case next := <-looks:
			if next.err != nil { // what was seen last stays, with the error
				next.buckets, next.more, next.store, next.at = now.buckets, now.more, now.store, now.at
				if !next.away() {
					next.err = c.trouble(next.err)
				}
			}
			now = next
		case key, ok := <-on.keys:
			const interrupt = 3 // Ctrl-C, in a raw terminal
			if !ok || key == 'q' || key == interrupt {
				return nil
			}
			if orders[string(key)] != nil {
				t.order = string(key)
			}
		}
	}
}
