package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// The picture has its own background, so that it can be read on any page, and
// another one for people who prefer the dark.
const outageStyle = `
text { font: 12px system-ui, sans-serif; fill: #24292f }
.paper { fill: #ffffff } .grid { stroke: #d0d7de } .mark { stroke: #24292f; stroke-dasharray: 4 3 } .title { font-size: 15px; font-weight: 600 }
.store { fill: #2f81d0 } .held { fill: #8ec5f0 } .degraded-passed { fill: #d99a1c } .degraded-refused { fill: #f0d08a } .unknown { fill: #b04fc4 } .errors { fill: #d1242f }
.normal { fill: #3fa45b } .open { fill: #d1242f } .half-open { fill: #b04fc4 } .testing { fill: #d99a1c } .partial { fill: #b9ae2a } .stabilizing { fill: #7fae3a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .grid { stroke: #30363d } .mark { stroke: #e6edf3 }
.held { fill: #1b4f80 } .degraded-refused { fill: #6b5218 }
}
`

const (
	pictureWidth          = 960.0
	pictureLeft           = 56.0
	pictureRight          = 16.0
	pictureTop            = 60.0  // of the first panel
	panelHeight           = 210.0 // with its title and the strips of states
	panelStrip, panelPlot = 22.0, 56.0
	panelBottom           = 30.0
)

// panel draws one run.
type panel struct {
	*bytes.Buffer
	run    *outageRun
	top    float64
	length time.Duration // of the longest run of the picture
	most   float64       // calls a second
}

// drawOutage returns the runs of one outage as an SVG, one below the other: who
// decided how many calls, and above that the state of each node.
func drawOutage(what string, runs []*outageRun) []byte {
	b := &bytes.Buffer{}
	height := pictureTop + panelHeight*float64(len(runs))
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="Who decided calls while %s">`+"\n", pictureWidth, height, what)
	fmt.Fprintf(b, "<style>%s</style>\n<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n", outageStyle, pictureWidth, height)
	p := panel{Buffer: b, top: pictureTop}
	p.text(pictureLeft, 24, `class="title"`, "%s: who decided", strings.ToUpper(what[:1])+what[1:])
	x := pictureLeft
	for o := range outcomes {
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="38" width="11" height="11"/>`+"\n", class(o.String()), x)
		p.text(x+16, 48, "", "%s", o)
		x += 40 + 6.6*float64(len(o.String()))
	}
	for _, r := range runs {
		p.length = max(p.length, r.Length)
		for _, counts := range r.Counts[:len(r.Counts)-1] {
			n := 0
			for _, c := range counts {
				n += c
			}
			p.most = max(p.most, float64(n)/outageStep.Seconds())
		}
	}
	p.most = math.Ceil(max(p.most, 1)/200) * 200
	for _, r := range runs {
		p.run = r
		p.draw()
		p.top += panelHeight
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// class is a name as one of the style's.
func class(name string) string { return strings.ReplaceAll(name, ", ", "-") }

func (p *panel) x(d time.Duration) float64 {
	return pictureLeft + (pictureWidth-pictureLeft-pictureRight)*d.Seconds()/p.length.Seconds()
}

func (p *panel) y(n float64) float64 {
	return p.top + panelHeight - panelBottom - (panelHeight-panelBottom-panelPlot)*n/p.most
}

func (p *panel) text(x, y float64, attributes, format string, args ...any) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" %s>`, x, y, attributes)
	xml.EscapeText(p, fmt.Appendf(nil, format, args...)) //nolint:errcheck // a buffer takes everything
	p.WriteString("</text>\n")
}

func (p *panel) draw() {
	p.text(pictureLeft, p.top+14, "", "%s", map[string]string{"now": "this version", "before": "before"}[p.run.Label])
	for n := 0.0; n <= p.most; n += p.most / 2 {
		fmt.Fprintf(p, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1[3]f"/>`+"\n", pictureLeft, pictureWidth-pictureRight, p.y(n))
		p.text(pictureLeft-6, p.y(n)+4, `text-anchor="end"`, "%.0f/s", n)
	}
	step := 10 * time.Second
	if p.length < 40*time.Second {
		step = 2 * time.Second
	}
	for d := time.Duration(0); d <= p.length; d += step {
		p.text(p.x(d), p.y(0)+16, `text-anchor="middle"`, "%.0f s", d.Seconds())
	}
	p.stack()
	for node, states := range p.run.States {
		p.states(p.top+panelStrip+8*float64(node), states)
	}
	for at, what := range map[time.Duration]string{p.run.From: "it begins", p.run.To: "it ends"} {
		fmt.Fprintf(p, `<line class="mark" x1="%.1f" x2="%.1[1]f" y1="%.1f" y2="%.1f"/>`+"\n", p.x(at), p.top+4, p.y(0))
		anchor := ""
		if at == p.run.From {
			anchor = `text-anchor="end"`
		}
		p.text(p.x(at)+map[bool]float64{true: -4, false: 4}[anchor != ""], p.top+14, anchor, "%s", what)
	}
}

// stack draws one area for each outcome, on top of those before.
func (p *panel) stack() {
	whole := p.run.Counts[:len(p.run.Counts)-1] // the last step has not ended
	base := make([]float64, len(whole))
	for o := range outcomes {
		var upper, lower string
		drawn := false
		for i := range whole {
			from, to := p.x(time.Duration(i)*outageStep), p.x(time.Duration(i+1)*outageStep)
			n := float64(whole[i][o]) / outageStep.Seconds()
			drawn = drawn || n > 0
			upper += fmt.Sprintf("L%.1f %.1fH%.1f", from, p.y(base[i]+n), to)
			lower = fmt.Sprintf("L%.1f %.1fH%.1f", to, p.y(base[i]), from) + lower
			base[i] += n
		}
		if drawn {
			fmt.Fprintf(p, `<path class="%s" d="M%s%sZ"/>`+"\n", class(o.String()), upper[1:], lower)
		}
	}
}

// states draws the strip of the states of one node, each as long as it lasted.
func (p *panel) states(y float64, states []string) {
	for i := 0; i < len(states); {
		first := i
		for i < len(states) && states[i] == states[first] {
			i++
		}
		from, to := p.x(time.Duration(first)*outageStep), min(p.x(time.Duration(i)*outageStep), pictureWidth-pictureRight)
		fmt.Fprintf(p, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="6"><title>%[1]s</title></rect>`+"\n", states[first], from, y, max(to-from, 0))
	}
}

// checkPicture reads a picture back.
func checkPicture(t *testing.T, picture []byte) {
	for in := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
	if bytes.Contains(picture, []byte("%!")) {
		t.Errorf("a number is missing in\n%s", picture)
	}
}

// exampleRun is a run that is known.
func exampleRun(label string) *outageRun {
	counts := make([][outcomes]int, 4)
	counts[0][byStore], counts[1][localPassed], counts[2][inError] = 30, 20, 1
	return &outageRun{
		Label: label, From: outageStep, To: 2 * outageStep, Length: 3 * outageStep, Counts: counts,
		States: [][]string{{"normal", "open", "normal"}},
	}
}

const outageTableHead = `| outage | | errors | refused in 10 s: pro, free, no tier, held | banned | over the limit: store, all | p99 during, after | by the store again |
|---|---|---|---|---|---|---|---|
`

// outageRows returns the rows of one outage for the table.
func outageRows(o *outage, runs []*outageRun) string {
	var b strings.Builder
	for i, r := range runs {
		name := ""
		if i == 0 {
			name = fmt.Sprintf("[%s](images/outages/%s.svg)", o.what, o.name)
		}
		f := &r.Figures
		var refused []string
		for _, who := range outageCallers {
			if who.within {
				refused = append(refused, shareOf(f.Refused[who.name], f.Early[who.name]))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | %.0f, %.0f | %s, %s | %.1f s |\n", name, r.Label, f.Errors, strings.Join(refused, ", "),
			f.Banned, f.Over, f.Extra, f.During.Round(time.Millisecond), f.After.Round(time.Millisecond), f.Back.Seconds())
	}
	return b.String()
}

func shareOf(n, of int) string {
	if n == 0 || of == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}
