package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func usageCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "usage", Short: "show what was consumed, by hour, by day and in total",
		Example: `sluice usage summary --from 7d
sluice usage plot --entity alice --resource chat`,
	}, usageListCommand(), usageSummaryCommand(), usagePlotCommand())
}

// usageFlags select usage.
type usageFlags struct {
	entity, resource, limit, by string
	from, to                    instant
}

func (u *usageFlags) define(f *pflag.FlagSet) {
	f.StringVar(&u.entity, "entity", "", "usage of this `entity`")
	f.StringVar(&u.resource, "resource", "", "usage of this `resource`")
	choose(f, &u.by, "by", "hour", "add up by hour or day, in UTC, or everything", "hour", "day", "total")
	f.Var(&u.from, "from", "start `time`, or 7d for seven days ago (default 24h ago, 30d by day)")
	f.Var(&u.to, "to", "end `time` (default now)")
}

func (u *usageFlags) needsOne(c *call) error {
	if u.entity == "" && u.resource == "" {
		return c.wrong("want --entity, --resource or both")
	}
	return nil
}

func usageListCommand() *cobra.Command {
	var u usageFlags
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list what an entity consumed, or what was consumed of a resource",
		Example: `sluice usage list --entity alice
sluice usage list --resource chat --by day --from 30d`,
	}, flags(u.define, most.define), func(ctx context.Context, c *call) error {
		if err := u.needsOne(c); err != nil {
			return err
		}
		return listUsage(ctx, c, &u, most, c.client.Usage)
	})
}

func listUsage(ctx context.Context, c *call, u *usageFlags, most length, ask func(context.Context, catalog.UsedQuery) (catalog.UsedPage, error)) error {
	all, more, err := readUsage(ctx, c, u, most, ask)
	return printUsage(c, err, all, more, newTable("START", "ENTITY", "RESOURCE", "LIMIT", ">CONSUMED", ">TAKES", "LAST"), func(r *catalog.Used) []string {
		return []string{moment(r.Start), r.Entity, r.Resource, r.Limit, r.Amount.String(), number(r.Count), moment(r.Last)}
	})
}

const noUsage = "no usage"

// printUsage is like printList, except for what it prints if there is nothing.
func printUsage(c *call, err error, all []catalog.Used, more bool, t *table, row func(*catalog.Used) []string) error {
	if err == nil && len(all) == 0 && !c.json {
		return c.say(noUsage)
	}
	return printList(c, err, "used", all, more, t, row)
}

func readUsage(ctx context.Context, c *call, u *usageFlags, most length, ask func(context.Context, catalog.UsedQuery) (catalog.UsedPage, error)) ([]catalog.Used, bool, error) {
	q := catalog.UsedQuery{Entity: u.entity, Resource: u.resource, Span: catalog.Span(u.by), From: u.from.Time, To: u.to.Time}
	return collect(c, most, func(p client.Page) ([]catalog.Used, string, error) {
		q.Cursor, q.Max = p.Cursor, p.Max
		page, err := ask(ctx, q)
		return page.Used, page.Next, err
	})
}

func usageSummaryCommand() *cobra.Command {
	var u usageFlags
	var most length
	return online(&cobra.Command{
		Use: "summary", Short: "add up usage over a time",
		Example: `sluice usage summary --from 7d
sluice usage summary --resource chat --by day --from 2026-01-01 --to 2026-02-01`,
	}, flags(u.define, most.define), func(ctx context.Context, c *call) error {
		all, more, err := readUsage(ctx, c, &u, most, c.client.UsageSummary)
		return printUsage(c, err, all, more, newTable("ENTITY", "RESOURCE", "LIMIT", ">CONSUMED", ">TAKES", "LAST"), func(r *catalog.Used) []string {
			return []string{r.Entity, r.Resource, r.Limit, r.Amount.String(), number(r.Count), moment(r.Last)}
		})
	})
}

// resourceUsageCommand is the usage of one resource, by entity.
func resourceUsageCommand() *cobra.Command {
	var u usageFlags
	var most length
	return online(&cobra.Command{
		Use: "usage RESOURCE", Short: "add up what each entity consumed of a resource",
		Example: "sluice resource usage chat --from 7d",
	}, func(f *pflag.FlagSet) {
		choose(f, &u.by, "by", "hour", "add up rows by hour, by day, which are kept for longer, or total", "hour", "day", "total")
		f.Var(&u.from, "from", "start `time`, or 7d for seven days ago (default 24h ago, 30d by day)")
		f.Var(&u.to, "to", "end `time` (default now)")
		most.define(f)
	}, func(ctx context.Context, c *call) error {
		u.resource = c.arg(0)
		all, more, err := readUsage(ctx, c, &u, most, c.client.UsageSummary)
		return printUsage(c, err, all, more, newTable("ENTITY", "LIMIT", ">CONSUMED", ">TAKES"), func(r *catalog.Used) []string {
			return []string{r.Entity, r.Limit, r.Amount.String(), number(r.Count)}
		})
	})
}

func usagePlotCommand() *cobra.Command {
	var u usageFlags
	var width, height int
	return online(&cobra.Command{
		Use: "plot", Short: "draw usage over time, a chart for each limit",
		Example: `sluice usage plot --entity alice --resource chat --from 48h
sluice usage plot --resource chat --by day --from 90d`,
	}, func(f *pflag.FlagSet) {
		u.define(f)
		f.StringVar(&u.limit, "limit", "", "only this `limit`")
		f.IntVar(&width, "width", 0, "width in `columns` (default the terminal's)")
		f.IntVar(&height, "height", 8, "height in `lines`")
	}, func(ctx context.Context, c *call) error {
		if err := u.needsOne(c); err != nil {
			return err
		}
		if u.by == "total" {
			return c.wrong("--by total: a plot is by hour or day")
		}
		if height < 1 || height > 100 || width < 0 || width > 1000 {
			return c.wrong("want a --height of 1 to 100 and a --width of at most 1000")
		}
		step := time.Hour
		if u.by == "day" {
			step = 24 * time.Hour
		}
		if u.to.IsZero() {
			u.to.Time = time.Now()
		}
		if u.from.IsZero() {
			u.from.Time = u.to.Add(-24 * time.Hour)
			if u.by == "day" {
				u.from.Time = u.to.Add(-30 * 24 * time.Hour)
			}
		}
		if steps := u.to.Sub(u.from.Time) / step; steps < 0 || steps > maxPlot {
			return c.wrong("want a --from before --to, and at most %d hours or days between", maxPlot)
		}
		all, _, err := readUsage(ctx, c, &u, maxPlotRows, c.client.Usage)
		if err != nil {
			return err
		}
		charts := chartsOf(all, &u, step)
		if c.json {
			return c.printJSON(map[string]any{"charts": charts})
		}
		if len(charts) == 0 {
			return c.say(noUsage)
		}
		if width == 0 {
			width = c.columns()
		}
		for i := range charts {
			if _, err := io.WriteString(c.stdout, charts[i].draw(width, height)); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	maxPlot     = 10_000
	maxPlotRows = 100_000
)

// chart is the usage of one limit over time, all entities together unless one
// was asked for.
type chart struct {
	Resource string          `json:"resource"`
	Limit    string          `json:"limit"`
	Entity   string          `json:"entity,omitempty"`
	Start    time.Time       `json:"start"`
	Step     string          `json:"step"`
	Consumed []sluice.Amount `json:"consumed"`

	step time.Duration
}

// chartsOf adds rows up by resource and limit, with zeros for times without.
func chartsOf(rows []catalog.Used, u *usageFlags, step time.Duration) []chart {
	start := u.from.UTC().Truncate(step)
	n := int((u.to.Sub(start) + step - 1) / step)
	index := map[[2]string]int{}
	var all []chart
	for i := range rows {
		r := &rows[i]
		at := int(r.Start.Sub(start) / step)
		if u.limit != "" && r.Limit != u.limit || at < 0 || at >= n {
			continue
		}
		key := [2]string{r.Resource, r.Limit}
		k, ok := index[key]
		if !ok {
			k = len(all)
			index[key] = k
			all = append(all, chart{
				Resource: r.Resource, Limit: r.Limit, Entity: u.entity, Start: start, Step: u.by,
				Consumed: make([]sluice.Amount, n), step: step,
			})
		}
		all[k].Consumed[at] = all[k].Consumed[at].Add(r.Amount)
	}
	return all
}

// eighths are bars of one cell, from the bottom.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// draw returns bars of so many lines. Where there are more amounts than
// columns, neighbours are added up.
func (c *chart) draw(width, height int) string {
	most := int64(0)
	room := max(width-12, 10)
	each := (len(c.Consumed) + room - 1) / room
	var bars []int64
	total := int64(0)
	for i := 0; i < len(c.Consumed); i += each {
		sum := int64(0)
		for _, a := range c.Consumed[i:min(i+each, len(c.Consumed))] {
			sum += a.Thousandths()
		}
		bars = append(bars, sum)
		most = max(most, sum)
		total += sum
	}
	wide := min(max(room/len(bars), 1), 6)
	var b strings.Builder
	title := c.Limit + " of " + c.Resource
	if c.Entity != "" {
		title += " by " + c.Entity
	}
	per := "one " + c.Step
	if each > 1 {
		per = fmt.Sprintf("%d %ss", each, c.Step)
	}
	fmt.Fprintf(&b, "%s: %s in all, a column is %s\n", printable(title), sluice.Thousandths(total), per)
	for line := height; line > 0; line-- {
		label := ""
		switch line {
		case height:
			label = sluice.Thousandths(most).String()
		case 1:
			label = "0"
		}
		var row strings.Builder
		for _, a := range bars {
			bar := max(wide-1, 1) // with a gap, if there is room
			row.WriteString(strings.Repeat(string(eighths[level(a, most, line, height)]), bar) + strings.Repeat(" ", wide-bar))
		}
		fmt.Fprintf(&b, "%10s │%s\n", label, strings.TrimRight(row.String(), " "))
	}
	layout := "Jan 2 15:04"
	if c.step >= 24*time.Hour {
		layout = "2006-01-02"
	}
	first := c.Start.Format(layout)
	last := c.Start.Add(time.Duration(len(c.Consumed)-1) * c.step).Format(layout)
	fmt.Fprintf(&b, "%10s └%s\n", "", strings.Repeat("─", wide*len(bars)))
	fmt.Fprintf(&b, "%10s  %s%*s\n", "", first, max(wide*len(bars)-len(first), len(last)+1), last)
	return b.String()
}

// level is how much of a cell in a line (1 is the lowest) a bar fills, in
// eighths. Any amount above 0 shows.
func level(a, most int64, line, height int) int {
	if a <= 0 || most <= 0 {
		return 0
	}
	total := max(int(float64(a)/float64(most)*float64(height*8)+0.5), 1)
	return min(max(total-(line-1)*8, 0), 8)
}
