package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// decode reads a file as YAML, and refuses fields that are not there.
func decode(t *testing.T, path string, into any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	decode(t, "prometheus/alerts.yaml", &file)
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// TestAlertsAskForWhatThereIs and say what is the matter.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	all := exposed(t)
	shown := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, a := range alerts(t) {
		q := parse(a.Expr)
		for _, p := range wrong(q, all) {
			t.Errorf("%s: %s", a.Alert, p)
		}
		if s := a.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity is %q", a.Alert, s)
		}
		summary := a.Annotations["summary"]
		if summary == "" {
			t.Errorf("%s has no summary", a.Alert)
		}
		for _, m := range shown.FindAllStringSubmatch(summary, -1) {
			if !slices.Contains(q.grouped, m[1]) && !(a.Alert == "SluiceDown" && m[1] == "instance") {
				t.Errorf("%s: the summary shows %s, which the result does not have", a.Alert, m[1])
			}
		}
	}
}

// TestTheRunbookKnowsEveryAlert and every metric that a node has.
func TestTheRunbookKnowsEveryAlert(t *testing.T) {
	book := read(t, "../docs/operations.md")
	var names []string
	for _, a := range alerts(t) {
		if slices.Contains(names, a.Alert) {
			t.Errorf("%s is there twice", a.Alert)
		}
		names = append(names, a.Alert)
		if !strings.Contains(book, "### "+a.Alert+"\n") {
			t.Errorf("docs/operations.md does not say what to do at %s", a.Alert)
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Sluice\w+)$`).FindAllStringSubmatch(book, -1) {
		if !slices.Contains(names, heading[1]) {
			t.Errorf("docs/operations.md has %s, which is no alert", heading[1])
		}
	}
	all := exposed(t)
	for name := range all {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		ours := strings.HasPrefix(name, "sluice_") || strings.HasPrefix(name, "rate_limiter_")
		if ours && !strings.Contains(book, "`"+base+"`") && !strings.Contains(book, "`"+name+"`") {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}
	elsewhere := regexp.MustCompile("^sluice_(postgres|replica|dynamodb)_") // the tests of metrics know them
	for _, m := range regexp.MustCompile("`((?:sluice|rate_limiter)_[a-z_]+)`").FindAllStringSubmatch(book, -1) {
		_, plain := all[m[1]]
		if _, histogram := all[m[1]+"_count"]; !plain && !histogram && !elsewhere.MatchString(m[1]) {
			t.Errorf("docs/operations.md explains %s, which no node has", m[1])
		}
	}
}

// TestAlertsFire has Prometheus's own tool read the rules and play the tests of
// alerts_test.yaml, in which every alert fires.
func TestAlertsFire(t *testing.T) {
	fired := map[string]bool{}
	for _, m := range regexp.MustCompile(`alertname: (\w+)\n +exp_alerts:\n`).FindAllStringSubmatch(read(t, "prometheus/alerts_test.yaml"), -1) {
		fired[m[1]] = true
	}
	for _, a := range alerts(t) {
		if !fired[a.Alert] {
			t.Errorf("no test of prometheus/alerts_test.yaml has %s fire", a.Alert)
		}
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"check", "config", "--syntax-only", "prometheus.yml"}, {"test", "rules", "alerts_test.yaml"}} {
		tool := exec.CommandContext(t.Context(), "promtool", args...)
		tool.Dir = "prometheus"
		if out, err := tool.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
