package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// column is a column of top.
type column struct {
	title string
	width int
	right bool
	text  func(*client.Bucket) string
}

// columns are those for which a screen is wide enough. Names share what the
// others leave.
func topColumns(width int) []column {
	node := func(get func(*client.Node) int64) func(*client.Bucket) string {
		return func(b *client.Bucket) string {
			if b.Node == nil {
				return "-"
			}
			return number(get(b.Node))
		}
	}
	rest := []column{
		{"USED", 5, true, func(b *client.Bucket) string { return percent(b.Utilization) }},
		{"", 2, false, mark},
		{"LEFT", 9, true, func(b *client.Bucket) string { return b.Remaining.String() }},
	}
	if width >= 72 {
		rest = append(rest,
			column{"ALLOWED", 7, true, node(func(n *client.Node) int64 { return n.Allowed })},
			column{"REFUSED", 7, true, node(func(n *client.Node) int64 { return n.Refused })})
	}
	if width >= 88 {
		rest = append(rest, column{"FULL IN", 7, true, func(b *client.Bucket) string { return coarse(b.ResetAfter) }})
	}
	if width >= 104 {
		rest = append(rest, column{"WAITING", 7, true, node(func(n *client.Node) int64 { return int64(n.Waiting) })})
	}
	if width >= 118 {
		rest = append(rest, column{"RULE", 20, false, func(b *client.Bucket) string { return b.RuleText() }})
	}
	bar := min(max(width/5, 8), 30)
	used := bar + 1
	for _, c := range rest {
		used += c.width + 1
	}
	names := max(width-used-3, 9)
	all := []column{
		{"ENTITY", names * 4 / 10, false, func(b *client.Bucket) string { return b.Entity }},
		{"RESOURCE", names * 3 / 10, false, func(b *client.Bucket) string { return b.Resource }},
		{"LIMIT", names - names*4/10 - names*3/10, false, func(b *client.Bucket) string { return b.Limit }},
		{"", bar, false, func(b *client.Bucket) string { return barOf(b.Utilization, bar) }},
	}
	return append(all, rest...)
}

// mark tells alarms apart where there are no colours.
func mark(b *client.Bucket) string {
	switch b.Alarm {
	case catalog.AlarmCritical:
		return "!!"
	case catalog.AlarmWarning:
		return "!"
	}
	return ""
}

// coarse is a span that does not change every second for long ones.
func coarse(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

var bars = []rune(" ▏▎▍▌▋▊▉")

// barOf is a bar for a share in percent, to an eighth of a cell.
func barOf(percent float64, width int) string {
	n := int(min(max(percent, 0), 100) / 100 * float64(width*8))
	text := strings.Repeat("█", n/8)
	if n%8 > 0 {
		text += string(bars[n%8])
	}
	return text
}

var alarmStyles = map[catalog.Alarm]style{
	catalog.AlarmNone: green, catalog.AlarmWarning: yellow, catalog.AlarmCritical: red,
}

// draw is one frame of top.
func (t *topFlags) draw(c *call, now *look, width, height int) *frame {
	f := newFrame(width, height)
	counts := map[catalog.Alarm]int{}
	for i := range now.buckets {
		counts[now.buckets[i].Alarm]++
	}
	x := f.put(0, 0, width, bold, "sluice top") + 2
	about := now.at.UTC().Format("15:04:05Z") + "  " + c.server
	if c.namespace != "" {
		about += " " + c.namespace
	}
	about += fmt.Sprintf("  %d buckets", len(now.buckets))
	if now.more {
		about += " of more"
	}
	x += f.put(x, 0, width-x, plain, about) + 2
	for _, a := range []catalog.Alarm{catalog.AlarmCritical, catalog.AlarmWarning} {
		if counts[a] > 0 {
			x += f.put(x, 0, width-x, alarmStyles[a], fmt.Sprintf("%d %s", counts[a], a)) + 2
		}
	}
	columns := topColumns(width)
	put := func(y int, column *column, x int, s style, text string) {
		if column.right {
			x += max(column.width-len([]rune(text)), 0)
		}
		f.put(x, y, column.width, s, text)
	}
	x = 0
	for i := range columns {
		put(1, &columns[i], x, dim, columns[i].title)
		x += columns[i].width + 1
	}
	for i := range now.buckets {
		y := i + 2
		if y >= height-1 {
			break
		}
		b := &now.buckets[i]
		x = 0
		for k := range columns {
			s := plain
			if k >= 3 && k <= 5 { // the bar, the percentage and the mark
				s = alarmStyles[b.Alarm]
			}
			put(y, &columns[k], x, s, columns[k].text(b))
			x += columns[k].width + 1
		}
	}
	t.drawKeys(f, now)
	return f
}

// drawKeys is the last line: what the keys do, or what goes wrong.
func (t *topFlags) drawKeys(f *frame, now *look) {
	y := f.height - 1
	if now.away() {
		f.put(0, y, f.width, red, storeText("away"))
		return
	}
	if now.err != nil {
		f.put(0, y, f.width, red, printable(now.err.Error()))
		return
	}
	if away := storeText(now.store); away != "" {
		f.put(0, y, f.width, red, away)
		return
	}
	x := 0
	for _, k := range []struct{ key, about string }{
		{"u", "utilization"}, {"r", "requests"}, {"e", "entity"}, {"q", "quit"},
	} {
		s := dim
		if k.key == t.order {
			s = inverse
		}
		x += f.put(x, y, f.width-x, s, k.key+" "+k.about) + 2
	}
}
