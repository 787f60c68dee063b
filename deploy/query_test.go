package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-go/sluice/metrics/metricstest"
)

// family is what a node exposes under one name: its labels, and their values.
type family map[string][]string

// exposed are the families that a node has, as Prometheus names them.
func exposed(t *testing.T) map[string]family {
	t.Helper()
	families, err := metricstest.Registry(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]family{"up": target()}
	for _, f := range families {
		labels := target()
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		name := f.GetName()
		if f.GetType() != dto.MetricType_HISTOGRAM {
			all[name] = labels
			continue
		}
		all[name+"_count"], all[name+"_sum"] = labels, labels
		all[name+"_bucket"] = maps.Clone(labels)
		all[name+"_bucket"]["le"] = nil
	}
	return all
}

// target are the labels that Prometheus adds.
func target() family { return family{"job": nil, "instance": nil} }

// query is what an expression of PromQL asks for.
type query struct {
	selectors []selector
	grouped   []string // labels of by, on and the like
}

type selector struct {
	metric   string
	matchers []matcher
}

type matcher struct{ label, op, value string }

var (
	tokens   = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+|=~|!~|!=|[^\s]`)
	word     = regexp.MustCompile(`^[a-zA-Z_:]`)
	grouping = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operator = []string{"and", "or", "unless", "bool", "offset"}
)

// parse reads as much of PromQL as the dashboard and the alerts use.
func parse(expr string) (q query) {
	all := tokens.FindAllString(expr, -1)
	at := func(i int) string {
		if i < len(all) {
			return all[i]
		}
		return ""
	}
	for i := 0; i < len(all); i++ {
		switch {
		case slices.Contains(grouping, all[i]) && at(i+1) == "(":
			for i += 2; at(i) != ")" && i < len(all); i++ {
				if all[i] != "," {
					q.grouped = append(q.grouped, all[i])
				}
			}
		case slices.Contains(operator, all[i]), !word.MatchString(all[i]), at(i+1) == "(", slices.Contains(grouping, at(i+1)):
		default:
			s := selector{metric: all[i]}
			if at(i+1) == "{" {
				for i += 2; at(i) != "}" && i < len(all); i++ {
					if all[i] != "," {
						s.matchers = append(s.matchers, matcher{all[i], at(i + 1), strings.Trim(at(i+2), `"`)})
						i += 2
					}
				}
			}
			q.selectors = append(q.selectors, s)
		}
	}
	return q
}

// wrong is what an expression asks for that no node exposes.
func wrong(q query, all map[string]family) (problems []string) {
	known := map[string]bool{}
	for _, s := range q.selectors {
		labels, ok := all[s.metric]
		if !ok {
			problems = append(problems, s.metric+" is not exposed")
			continue
		}
		for l := range labels {
			known[l] = true
		}
		for _, m := range s.matchers {
			values, ok := labels[m.label]
			if !ok {
				problems = append(problems, fmt.Sprintf("%s has no label %s", s.metric, m.label))
				continue
			}
			if values == nil || strings.HasPrefix(m.value, "$") {
				continue
			}
			for _, v := range strings.Split(m.value, "|") {
				if !slices.Contains(values, v) {
					problems = append(problems, fmt.Sprintf("%s: %s is never %q but one of %q", s.metric, m.label, v, values))
				}
			}
		}
	}
	if len(q.selectors) == 0 {
		problems = append(problems, "asks for nothing")
	}
	for _, l := range q.grouped {
		if !known[l] {
			problems = append(problems, "groups by "+l+", which nothing has")
		}
	}
	return problems
}

// TestQueriesAreChecked: what follows relies on mistakes being found.
func TestQueriesAreChecked(t *testing.T) {
	all := exposed(t)
	for expr, want := range map[string]string{
		`sum by (outcome) (rate(sluice_takes_total{source="store"}[5m])) > 0.5 and up == 1`:    "",
		`histogram_quantile(0.9, sum by (le) (rate(sluice_take_duration_seconds_bucket[5m])))`: "",
		`sluice_store_state{state=~"open|half-open",job=~"$job"}`:                              "",
		`rate(sluice_take_total[5m])`:                   "sluice_take_total is not exposed",
		`sluice_take_duration_seconds`:                  "sluice_take_duration_seconds is not exposed",
		`sluice_takes_total{result="allowed"}`:          "sluice_takes_total has no label result",
		`sluice_takes_total{outcome=~"allowed|denied"}`: `"denied"`,
		`sum by (plan) (rate(sluice_takes_total[5m]))`:  "groups by plan, which nothing has",
		`histogram_quantile(0.9, sum by (le) (rate(sluice_take_duration_seconds_count[$__rate_interval])))`: "groups by le, which nothing has",
		`1 > 0`: "asks for nothing",
	} {
		problems := strings.Join(wrong(parse(expr), all), "; ")
		if want == "" && problems != "" || !strings.Contains(problems, want) {
			t.Errorf("%s: %q, want %q", expr, problems, want)
		}
	}
}
