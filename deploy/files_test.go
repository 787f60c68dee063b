package deploy_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/policy"
)

type compose struct {
	Name     string
	Services map[string]service
	Volumes  map[string]any
	Configs  map[string]struct{ Content string }
	Secrets  map[string]struct{ Environment string }
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Rest        map[string]any `yaml:",inline"`
}

func openCompose(t *testing.T) (c compose) {
	decode(t, "compose.yaml", &c)
	return c
}

// TestComposeNamesWhatThereIs: files, volumes and settings.
func TestComposeNamesWhatThereIs(t *testing.T) {
	c := openCompose(t)
	for name, s := range c.Services {
		if (s.Image == "") == (s.Build.Dockerfile == "") {
			t.Errorf("%s needs either an image or a Dockerfile", name)
		}
		if _, tag, _ := strings.Cut(s.Image, ":"); s.Image != "" && (tag == "" || tag == "latest") {
			t.Errorf("%s: %s: the version must be pinned", name, s.Image)
		}
		if s.Build.Dockerfile != "" {
			read(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				if info, err := os.Stat(source); err != nil || !info.IsDir() {
					t.Errorf("%s: %s is no folder", name, source)
				}
			} else if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s: there is no volume %s", name, source)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: %s can be reached from elsewhere", name, p)
			}
		}
	}
}

// settings are those of the sample, as its file and the environment say.
func settings(t *testing.T) (file map[string]string, environment map[string]string) {
	decode(t, "sluice/sluice.yaml", &file)
	environment = map[string]string{}
	for name, value := range openCompose(t).Services["sluice"].Environment {
		if strings.HasPrefix(name, "SLUICE_") {
			environment[name] = value
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ENV (SLUICE_\w+)=(\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		environment[m[1]] = m[2]
	}
	return file, environment
}

// TestPrometheusFindsSluice where the sample makes it listen, and Grafana finds
// Prometheus and the dashboard.
func TestPrometheusFindsSluice(t *testing.T) {
	var config struct {
		Global  map[string]any `yaml:"global"`
		Rules   []string       `yaml:"rule_files"`
		Scrapes []struct {
			Job    string                       `yaml:"job_name"`
			Auth   map[string]string            `yaml:"authorization"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, "prometheus/prometheus.yml", &config)
	for _, file := range config.Rules {
		read(t, filepath.Join("prometheus", file))
	}
	file, environment := settings(t)
	_, port, err := net.SplitHostPort(file["admin-listen"])
	if err != nil {
		t.Fatal(err)
	}
	if s := config.Scrapes[0]; s.Job != "sluice" || s.Static[0].Targets[0] != "sluice:"+port {
		t.Errorf("Prometheus looks for %+v, but metrics are on %s", s, port)
	}
	c := openCompose(t)
	secret := strings.TrimPrefix(config.Scrapes[0].Auth["credentials_file"], "/run/secrets/")
	if variable := c.Secrets[secret].Environment; variable == "" || !strings.Contains(c.Configs["tokens"].Content, "${"+variable+":?") {
		t.Errorf("Prometheus sends %s, which is %s, and Sluice knows %s", secret, variable, c.Configs["tokens"].Content)
	}
	if !strings.HasPrefix(read(t, "grafana/provisioning/datasources/prometheus.yaml"), "apiVersion: 1\n") {
		t.Error("Grafana wants apiVersion: 1")
	}
	var provider struct {
		Version   int `yaml:"apiVersion"`
		Providers []struct {
			Options struct{ Path string }
			Rest    map[string]any `yaml:",inline"`
		}
	}
	decode(t, "grafana/provisioning/dashboards/sluice.yaml", &provider)
	mounted := false
	for _, v := range openCompose(t).Services["grafana"].Volumes {
		mounted = mounted || v == "./grafana/dashboards:"+provider.Providers[0].Options.Path+":ro"
	}
	if !mounted {
		t.Errorf("the dashboard is not mounted at %s", provider.Providers[0].Options.Path)
	}
	if environment["SLUICE_CONFIG"] != "/etc/sluice/sluice.yaml" || file["policy"] != "/etc/sluice/policy.yaml" {
		t.Error("settings and policy are not where the folder is mounted")
	}
}

func TestTheSamplePolicyIsValid(t *testing.T) {
	if _, err := policy.Parse("policy.yaml", []byte(read(t, "sluice/policy.yaml"))); err != nil {
		t.Error(err)
	}
}

// instruction is one of a Dockerfile.
type instruction struct{ name, rest string }

func dockerfile(t *testing.T) (all []instruction) {
	text := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(line, " ")
		if !ok || name != strings.ToUpper(name) {
			t.Fatalf("Dockerfile: %q is no instruction", line)
		}
		all = append(all, instruction{name, strings.Join(strings.Fields(rest), " ")})
	}
	return all
}

// TestTheImageIsSmallAndRunsAsNobody: what can be seen without building it.
func TestTheImageIsSmallAndRunsAsNobody(t *testing.T) {
	var last, user, build string
	var entry []string
	made := map[string]bool{"/etc/ssl/certs/ca-certificates.crt": true} // in Go's own image
	for _, i := range dockerfile(t) {
		switch i.name {
		case "FROM":
			last = i.rest
		case "USER":
			user = i.rest
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(i.rest), &entry); err != nil {
				t.Errorf("ENTRYPOINT: %v", err)
			}
		case "RUN":
			if strings.Contains(i.rest, "go build") {
				build = i.rest
			}
			if m := regexp.MustCompile(`(?:-o|mkdir) (/\S+)`).FindStringSubmatch(i.rest); m != nil {
				made[m[1]] = true
			}
		case "COPY":
			words := strings.Fields(i.rest)
			from := false
			for len(words) > 0 && strings.HasPrefix(words[0], "--") {
				from = from || words[0] == "--from=build"
				words = words[1:]
			}
			for _, source := range words[:len(words)-1] {
				if _, err := os.Stat(filepath.Join("..", source)); !from && err != nil {
					t.Error(err)
				}
				if from && !made[source] {
					t.Errorf("nothing makes %s", source)
				}
			}
		}
	}
	if last != "scratch" || user != "65532:65532" {
		t.Errorf("the image is from %s and runs as %s", last, user)
	}
	if len(entry) != 1 || entry[0] != "/usr/bin/sluice" {
		t.Errorf("it runs %q", entry)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-tags timetzdata", "./cmd/sluice"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build lacks %s: %s", want, build)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if want := "FROM golang:" + version[1] + " AS build"; !strings.Contains(read(t, "Dockerfile"), want) {
		t.Errorf("the Dockerfile lacks %q, which go.mod asks for", want)
	}
}

// TestYAMLIsYAML: every such file here can be read.
func TestYAMLIsYAML(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
			return err
		}
		var anything map[string]any
		if err := yaml.Unmarshal([]byte(read(t, path)), &anything); err != nil || len(anything) == 0 {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
