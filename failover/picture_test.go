package failover_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

// The picture has its own background, so that it can be read on any page, and
// another one for people who prefer the dark.
const style = `
text { font: 12px system-ui, sans-serif; fill: #24292f }
.paper { fill: #ffffff } .grid { stroke: #d0d7de } .mark { stroke: #24292f; stroke-dasharray: 4 3 } .title { font-size: 15px; font-weight: 600 }
.store { fill: #2f81d0 } .held { fill: #8ec5f0 } .degraded-passed { fill: #d99a1c } .degraded-refused { fill: #f0d08a } .unknown { fill: #b04fc4 } .errors { fill: #d1242f }
.normal { fill: #3fa45b } .open { fill: #d1242f } .half-open { fill: #b04fc4 } .testing { fill: #d99a1c } .partial { fill: #b9ae2a } .stabilizing { fill: #7fae3a }
.on-state { fill: #ffffff; font-size: 11px; font-weight: 600 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .grid { stroke: #30363d } .mark { stroke: #e6edf3 }
.held { fill: #1b4f80 } .degraded-refused { fill: #6b5218 }
.on-state { fill: #0d1117 }
}
`

const (
	pictureWidth, pictureHeight = 960, 400
	left, right                 = 56.0, 16.0 // margins of the plot
	strip                       = 74.0       // where the states are
	top, bottom                 = 104.0, 56.0
)

// class is a name as one of the style's.
func class(name fmt.Stringer) string { return strings.ReplaceAll(name.String(), ", ", "-") }

// canvas draws a timeline.
type canvas struct {
	bytes.Buffer
	line *timeline
	step time.Duration // what is drawn as one
	rate [][kinds]float64
	most float64 // of the rate, at the top of the plot
}

// newCanvas draws seconds in ten parts, but of a long timeline in two: more
// cannot be told apart.
func newCanvas(l *timeline) *canvas {
	c := &canvas{line: l, step: slot}
	if l.length > 30*time.Second {
		c.step = 5 * slot
	}
	for at := time.Duration(0); at+c.step <= l.length; at += c.step {
		var rate [kinds]float64
		all := 0.0
		for k := range kinds {
			rate[k] = float64(l.sum(k, at, at+c.step)) / c.step.Seconds()
			all += rate[k]
		}
		c.rate = append(c.rate, rate)
		c.most = max(c.most, all)
	}
	const round = 2000
	c.most = math.Ceil(max(c.most, 1)/round) * round
	return c
}

func (c *canvas) x(d time.Duration) float64 {
	return left + (pictureWidth-left-right)*d.Seconds()/c.line.length.Seconds()
}

func (c *canvas) y(n float64) float64 {
	return pictureHeight - bottom - (pictureHeight-top-bottom)*n/c.most
}

func (c *canvas) text(x, y float64, attributes, format string, args ...any) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" %s>`, x, y, attributes)
	xml.EscapeText(c, fmt.Appendf(nil, format, args...)) //nolint:errcheck // a buffer takes everything
	c.WriteString("</text>\n")
}

// picture is the timeline as an SVG: who decided how many takes, one on top of
// the other, and above that the states.
func (l *timeline) picture() []byte {
	c := newCanvas(l)
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="Decisions during an outage of Redis, by who decided">`+"\n",
		pictureWidth, pictureHeight)
	fmt.Fprintf(c, "<style>%s</style>\n<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", style, pictureWidth, pictureHeight)
	c.text(left, 24, `class="title"`, "Redis killed under %.0f takes a second: who decided", float64(l.total())/l.length.Seconds())
	c.legend()
	c.axes()
	c.stack()
	c.states(l.used())
	c.mark(l.killed, "Redis killed")
	c.mark(l.back, "Redis back")
	c.WriteString("</svg>\n")
	return c.Bytes()
}

func (c *canvas) legend() {
	x := left
	for k := range kinds {
		n := c.line.sum(k, 0, c.line.length)
		fmt.Fprintf(c, `<rect class="%s" x="%.1f" y="38" width="11" height="11"/>`+"\n", class(k), x)
		label := fmt.Sprintf("%s: %d", k, n)
		c.text(x+16, 48, "", "%s", label)
		x += 34 + 6.6*float64(len(label))
	}
}

func (c *canvas) axes() {
	for n := 0.0; n <= c.most; n += c.most / 4 {
		fmt.Fprintf(c, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1[3]f"/>`+"\n", left, pictureWidth-right, c.y(n))
		c.text(left-6, c.y(n)+4, `text-anchor="end"`, "%.0f", n)
	}
	step := 10 * time.Second
	if c.line.length < 20*time.Second {
		step = time.Second
	}
	for d := time.Duration(0); d <= c.line.length; d += step {
		c.text(c.x(d), pictureHeight-bottom+18, `text-anchor="middle"`, "%.0f", d.Seconds())
	}
	c.text(pictureWidth-right, pictureHeight-bottom+38, `text-anchor="end"`, "seconds")
	c.text(left, pictureHeight-bottom+38, "", "takes a second")
}

// stack draws one area for each kind, on top of those before.
func (c *canvas) stack() {
	base := make([]float64, len(c.rate))
	for k := range kinds {
		var upper, lower string
		drawn := false
		for i := range c.rate {
			from, to := c.x(time.Duration(i)*c.step), c.x(time.Duration(i+1)*c.step)
			n := c.rate[i][k]
			drawn = drawn || n > 0
			upper += fmt.Sprintf("L%.1f %.1f H%.1f ", from, c.y(base[i]+n), to)
			lower = fmt.Sprintf("L%.1f %.1f H%.1f ", to, c.y(base[i]), from) + lower
			base[i] += n
		}
		if drawn {
			fmt.Fprintf(c, `<path class="%s" d="M%s%sZ"/>`+"\n", class(k), upper[1:], lower)
		}
	}
}

// states draws the strip of states, each as long as it lasted.
func (c *canvas) states(used []timelineSlot) {
	for i := 0; i < len(used); {
		first := i
		for i < len(used) && used[i].state == used[first].state {
			i++
		}
		state := used[first].state
		from, to := c.x(time.Duration(first)*slot), min(c.x(time.Duration(i)*slot), pictureWidth-right)
		fmt.Fprintf(c, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="18"><title>%[1]s</title></rect>`+"\n", class(state), from, strip, to-from)
		if to-from > 60 {
			c.text((from+to)/2, strip+13, `class="on-state" text-anchor="middle"`, "%s", state)
		}
	}
}

func (c *canvas) mark(at time.Duration, what string) {
	fmt.Fprintf(c, `<line class="mark" x1="%.1f" x2="%.1[1]f" y1="%.1f" y2="%.1f"/>`+"\n", c.x(at), strip-6, pictureHeight-bottom)
	c.text(c.x(at)+4, strip-3, "", "%s", what)
}

// TestPicture draws a timeline that is known, and reads it back.
func TestPicture(t *testing.T) {
	var l *timeline
	synctest.Test(t, func(*testing.T) {
		l = newTimeline(time.Minute, func() failover.State { return failover.Testing })
		for range 30 {
			l.note(&sluice.Decision{Allowed: true}, nil, time.Millisecond, false)
			l.note(&sluice.Decision{Source: sluice.Degraded}, nil, time.Millisecond, false)
		}
		l.note(nil, errors.New("no"), 2*time.Millisecond, false)
		l.end()
	})
	l.length = 3 * slot
	picture := l.picture()
	for in := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
	for _, want := range []string{"store: 30", "degraded, refused: 30", "errors: 1", "<title>testing</title>", `<path class="store"`} {
		if !bytes.Contains(picture, []byte(want)) {
			t.Errorf("no %q in\n%s", want, picture)
		}
	}
	if bytes.Contains(picture, []byte("%!")) {
		t.Errorf("a number is missing in\n%s", picture)
	}
	var b strings.Builder
	if _, err := l.WriteTo(&b); err != nil || !strings.Contains(b.String(), "closed     testing") {
		t.Errorf("%v in\n%s", err, b.String())
	}
}
