package envoy_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/server/envoy"
)

// counts are the counts that are not 0, one in a line.
func counts(t *testing.T, s *envoy.Service) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.Counters(s.Counters))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() == 0 {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s %s %g", strings.TrimPrefix(f.GetName(), "ratelimit_service_"), strings.Join(labels, " "), m.GetCounter().GetValue()))
		}
	}
	sort.Strings(all)
	return strings.Join(all, "\n")
}

func TestMetrics(t *testing.T) {
	s := open(t, `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: detail
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: route
    value_to_metric: true
    descriptors:
      - key: method
        shadow_mode: true
        rate_limit: {unit: day, requests_per_unit: 1}
  - key: path
    value: files/*
    share_threshold: true
    value_to_metric: true
    rate_limit: {unit: day, requests_per_unit: 10}
`, envoy.Settings{})
	q := request("shop", d("user", "a"))
	q.HitsAddend = 9
	ask(t, s, q) // one near
	ask(t, s, q) // eight over, one near
	ask(t, s, request("shop", d("detail", "10.0.0.1:80")))
	ask(t, s, request("shop", d("route", "r", "method", "GET"), d("route", "r", "method", "PUT")))
	ask(t, s, request("shop", d("route", "r", "method", "GET")))
	ask(t, s, request("shop", d("path", "files/a.pdf")))
	ask(t, s, request("nowhere", d("user", "a")))
	want := `config_load_success  1
domain_not_found  1
rate_limit_near_limit shop route_r method 2
rate_limit_near_limit shop user  2
rate_limit_over_limit shop route_r method 1
rate_limit_over_limit shop user  8
rate_limit_shadow_mode shop route_r method 1
rate_limit_total_hits shop detail_10_0_0_1_80  1
rate_limit_total_hits shop path_files/*  1
rate_limit_total_hits shop route_r method 3
rate_limit_total_hits shop user  18
rate_limit_within_limit shop detail_10_0_0_1_80  1
rate_limit_within_limit shop path_files/*  1
rate_limit_within_limit shop route_r method 2
rate_limit_within_limit shop user  9`
	if got := counts(t, s); got != want {
		t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
	}
}

// TestMetricsAreBounded shows that values of requests cannot fill the memory.
func TestMetricsAreBounded(t *testing.T) {
	s := open(t, "domain: x\ndescriptors: [{key: a, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}]", envoy.Settings{})
	for i := range 11_000 {
		ask(t, s, request("x", d("a", fmt.Sprint(i))))
	}
	// Each value has three counts: hits, near and within. The rest is the rule's.
	lines := strings.Split(counts(t, s), "\n")
	if len(lines) > 3*10_000+10 {
		t.Errorf("%d counts", len(lines))
	}
}
