package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
)

// shell is one bash in which the commands of a page are run, one after the
// other, as by somebody who reads it: what a command sets is there for the
// next. Servers run beside it.
type shell struct {
	t       *testing.T
	dir     string
	in      io.Writer
	out     *bufio.Reader
	serving string // the process id of what listens, or ""

	// What stands for the addresses in the pages.
	address, admin  string
	redis, upstream string
	database        func(*testing.T) string
	databaseAddress string
}

// prelude makes curl say the status of each answer, and nothing else but the
// answer. What belongs to the repository is run there.
const prelude = `
curl() { command curl -sS -w $'%%{stderr}\002%%{http_code}\002' "$@"; }
repository=%[1]q
go() { (cd %[1]q && command go "$@"); }
make() { (cd %[1]q && command make "$@"); }
`

// newShell starts a shell in an empty folder.
func newShell(t *testing.T, repository, bin string, postgres *postgrestest.Server) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir(), database: func(t *testing.T) string { return postgres.Database(t) }}
	if err := os.Symlink(filepath.Join(repository, "examples"), filepath.Join(s.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	c := exec.CommandContext(ctx, "bash", "--norc", "--noprofile")
	c.Dir = s.dir
	for _, v := range os.Environ() { // settings of whoever runs the tests, and of make, are not the page's
		if !regexp.MustCompile(`^(SLUICE_|OTEL_|MAKE|MFLAGS)`).MatchString(v) {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_GRPC_LISTEN=127.0.0.1:0")
	// What the shell has started ends with it, even if it hangs.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		defer cancel()
		s.stop()
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	s.do(fmt.Sprintf(prelude, repository))
	return s
}

// do runs a command, and answers what it printed and its exit code.
func (s *shell) do(command string) (printed, code string) {
	s.t.Helper()
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	if _, err := fmt.Fprintf(s.in, "eval %s 2>&1 </dev/null; printf '\\001%%d\\001' $?\n", quoted); err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	for _, to := range []*string{&printed, &code} {
		text, err := s.out.ReadString('\x01')
		if err != nil {
			s.t.Fatalf("%s: %v\n%s", command, err, text)
		}
		*to = strings.TrimSuffix(text, "\x01")
	}
	return printed, code
}

// start runs a command that stays until it is told to end, and answers what it
// says at first.
func (s *shell) start(command string) (greeting string) {
	s.t.Helper()
	listens := !strings.HasPrefix(command, "sluice local")
	if listens {
		s.stop() // which has the port, in the page
	}
	said := filepath.Join(s.t.TempDir(), "said")
	pid, _ := s.do(command + " >" + said + " 2>" + said + ".errors &\necho $!")
	pid = strings.TrimSpace(pid)
	redistest.Eventually(s.t, time.Minute, command, func() bool {
		if _, code := s.do("kill -0 " + pid); code != "0" {
			text, err := os.ReadFile(said + ".errors")
			s.t.Fatalf("%s ended: %v\n%s", command, err, text)
		}
		text, err := os.ReadFile(said)
		greeting = string(text)
		return err == nil && strings.Contains(greeting, "Ctrl-C.\n")
	})
	if listens {
		s.serving = pid
		s.address = printedAddress.FindString(greeting)
		if _, metrics, ok := strings.Cut(greeting, "  metrics "); ok {
			s.admin = printedAddress.FindString(metrics)
		}
		s.do("export SLUICE_SERVER=http://" + s.address)
		s.try(command)
	} else {
		s.t.Cleanup(func() { s.end(pid) })
	}
	return greeting
}

// try asks what listens whether it works.
func (s *shell) try(command string) {
	s.t.Helper()
	ask, want := "curl http://"+s.address+"/", "\x02200\x02"
	if strings.Contains(command, "sluice serve") { // by its store, and not by local quotas because that is away
		ask, want = `curl -d '{"entity":"somebody","limits":{"some":"5/s"}}' http://`+s.address+"/v1/take", `"source":"store"`
	}
	if printed, _ := s.do(ask); !strings.Contains(printed, want) {
		s.t.Fatalf("%s answers with\n%s", command, printed)
	}
}

var printedAddress = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// stop ends what listens.
func (s *shell) stop() {
	if s.serving != "" {
		s.end(s.serving)
		s.serving = ""
	}
}

// end ends a process of the shell's, which must end well.
func (s *shell) end(pid string) {
	s.t.Helper()
	if printed, code := s.do("kill " + pid + " && wait " + pid); code != "0" {
		s.t.Errorf("a server ended with %s: %s", code, printed)
	}
}

var (
	redisAddress    = regexp.MustCompile(`redis://([^ /@]*@)?[\w.]+:6379`)
	postgresAddress = regexp.MustCompile(`postgres://[\w.]+/sluice`)
)

// here replaces the addresses of a page by those of the servers here.
func (s *shell) here(command string) string {
	command = strings.ReplaceAll(command, "go run ./cmd/sluice", "sluice") // which was built once
	command = strings.ReplaceAll(command, "--admin-listen 127.0.0.1:9090", "--admin-listen 127.0.0.1:0")
	command = strings.ReplaceAll(command, "/etc/ratelimit/config", "config")
	if strings.Contains(command, "127.0.0.1:3000") {
		command = strings.ReplaceAll(command, "127.0.0.1:3000", s.api())
	}
	if redisAddress.MatchString(command) || strings.HasPrefix(command, "redis-cli ") {
		if s.redis == "" {
			s.redis = redistest.Start(s.t).Addr()
		}
		command = redisAddress.ReplaceAllString(command, "redis://${1}"+s.redis)
		if rest, ok := strings.CutPrefix(command, "redis-cli "); ok {
			command = "redis-cli -u redis://" + s.redis + " " + rest
		}
	}
	if postgresAddress.MatchString(command) {
		if s.databaseAddress == "" {
			s.databaseAddress = s.database(s.t)
		}
		command = postgresAddress.ReplaceAllString(command, s.databaseAddress)
	}
	command = strings.ReplaceAll(command, "127.0.0.1:8080", s.address)
	return strings.ReplaceAll(command, "127.0.0.1:9090", s.admin)
}

// there replaces the addresses of the servers here by those of the pages.
func (s *shell) there(printed string) string {
	for page, here := range map[string]string{"127.0.0.1:8080": s.address, "127.0.0.1:9090": s.admin, "127.0.0.1:3000": s.upstream} {
		if here != "" {
			printed = strings.ReplaceAll(printed, here, page)
		}
	}
	return printed
}

// api starts the API that the gateway stands in front of, and answers where.
func (s *shell) api() string {
	if s.upstream == "" {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusCreated)
			}
			fmt.Fprintln(w, "this is the API") //nolint:errcheck // the client sees it
		}))
		s.t.Cleanup(api.Close)
		s.upstream = api.Listener.Addr().String()
	}
	return s.upstream
}
