package deploy_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID    int    `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
	Grid  struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
}

func openDashboard(t *testing.T) (d dashboard) {
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboards/sluice.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardAsksForWhatThereIs, with variables that it has.
func TestTheDashboardAsksForWhatThereIs(t *testing.T) {
	all := exposed(t)
	d := openDashboard(t)
	variables := []string{"__rate_interval", "__all"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		metric, ok := strings.CutPrefix(v.Definition, "label_values(")
		if v.Type != "query" {
			continue
		}
		at := strings.LastIndex(metric, ",")
		if !ok || at < 0 {
			t.Errorf("variable %s is %s", v.Name, v.Definition)
			continue
		}
		for _, p := range wrong(parse(metric[:at]), all) {
			t.Errorf("variable %s: %s", v.Name, p)
		}
	}
	used := regexp.MustCompile(`\$(\w+)`)
	shown := regexp.MustCompile(`{{(\w+)}}`)
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			q := parse(target.Expr)
			for _, problem := range wrong(q, all) {
				t.Errorf("%s: %s", p.Title, problem)
			}
			for _, m := range used.FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("%s: there is no variable %s", p.Title, m[1])
				}
			}
			for _, m := range shown.FindAllStringSubmatch(target.Legend, -1) {
				if !slices.Contains(q.grouped, m[1]) {
					t.Errorf("%s: the legend shows %s, which the result does not have", p.Title, m[1])
				}
			}
			if open, closed := strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"); open != closed {
				t.Errorf("%s: %s has %d ( and %d )", p.Title, target.Expr, open, closed)
			}
		}
	}
}

// TestPanelsDoNotOverlap and can be told apart.
func TestPanelsDoNotOverlap(t *testing.T) {
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range openDashboard(t).Panels {
		if ids[p.ID] {
			t.Errorf("%s has the id %d of another panel", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Grid.X+p.Grid.W > 24 {
			t.Errorf("%s is too far to the right", p.Title)
		}
		for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
			for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestEveryMetricIsLookedAt: what nobody looks at need not be there.
func TestEveryMetricIsLookedAt(t *testing.T) {
	var queries []string
	for _, a := range alerts(t) {
		queries = append(queries, a.Expr)
	}
	for _, p := range openDashboard(t).Panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	text := strings.Join(queries, "\n")
	// These are for looking closer, as the runbook says.
	rest := []string{
		"sluice_store_state_entered_total", "sluice_store_state_seconds_total", "sluice_degraded_unlisted_total",
		"sluice_catalog_loads_total", "sluice_catalog_evicted_total", "sluice_catalog_entries", "sluice_catalog_watching",
		"sluice_usage_rows_total", "sluice_policy_loads_total", "sluice_policy_failures_total", "sluice_policy_loaded_timestamp_seconds",
		"sluice_memory_clock_ahead_seconds", "sluice_clock_gaps_total", "sluice_idempotent_released_total", "sluice_idempotent_stored_bytes_total",
		"sluice_idempotent_replayed_bytes_total", "sluice_outgoing_calls_total", "sluice_outgoing_tries_total",
		"sluice_sanctions_lifted_total", "sluice_process_memory_limit_bytes", "sluice_process_memory_live_bytes",
		"sluice_alarms_total", "sluice_memory_pressure_begun_total", "sluice_memory_pressure_evicted_total", "rate_limiter_config_cache_hits_total", "rate_limiter_config_cache_misses_total",
	}
	for name := range exposed(t) {
		ours := strings.HasPrefix(name, "sluice_") || strings.HasPrefix(name, "rate_limiter_")
		if !ours || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count") {
			continue
		}
		if !strings.Contains(text, name) && !slices.Contains(rest, name) {
			t.Errorf("neither an alert nor the dashboard looks at %s", name)
		}
	}
}
