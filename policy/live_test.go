package policy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	first  = "version: 1\nlimits: {global: {limit: 1/s}}\n"
	second = "version: 1\nlimits: {global: {limit: 2/s}}\n"
	third  = "version: 1\nlimits: {global: {limit: 3/s}}\n"
	wrong  = "version: 1\nlimits: {global: {limit: lots}}\n"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// inPlace is the number in the one limit of the policy in place.
func inPlace(l *Live) string {
	p := l.Policy()
	return demands(p, p.Match("GET", "/"), "")[0][0].Limit.String()
}

// watched starts to watch and gives a channel of what it tells. The wait for
// real notices of the file system is without sleeping.
func watched(t *testing.T, path string) (*Live, <-chan Status) {
	t.Helper()
	told := make(chan Status, 100)
	l, err := Watch(t.Context(), path, WatchConfig{Notify: func(s Status) { told <- s }, Settle: time.Millisecond, Poll: time.Hour, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	<-told // the first load
	return l, told
}

func TestFilesThatAreReplacedAreLoaded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	write(t, path, first)
	l, told := watched(t, path)

	write(t, path, second)
	for s := <-told; s.Err != nil; s = <-told { // it is empty before it is written
	}
	if got := inPlace(l); got != "2/s" {
		t.Errorf("after a write %s is in place", got)
	}

	write(t, filepath.Join(dir, "new"), third)
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	<-told
	if got := inPlace(l); got != "3/s" {
		t.Errorf("after a rename %s is in place", got)
	}
	if s := l.Status(); s.Loads != 3 || s.Err != nil || s.Revision != l.Policy().Revision {
		t.Errorf("%+v", s)
	}
}

// Kubernetes keeps the files of a config map in a directory that a link
// ..data names, and swaps that link.
func TestSwappedLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"..1": first, "..2": second, "..3": third} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "policy.yaml"), content)
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", "..data")
	link(filepath.Join("..data", "policy.yaml"), "policy.yaml")
	l, told := watched(t, filepath.Join(dir, "policy.yaml"))
	for i, want := range []string{"2/s", "3/s"} {
		link("../"+filepath.Base(dir)+"/.."+string(rune('2'+i)), "..tmp")
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		<-told
		if got := inPlace(l); got != want {
			t.Errorf("after swap %d, %s is in place", i+1, got)
		}
	}
}

func TestABadFileKeepsTheOldPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, first)
	l, told := watched(t, path)
	before := l.Policy()

	write(t, path, wrong)
	s := <-told
	for s.Err == nil || !strings.Contains(s.Error, "lots") { // a half-written file may come first
		s = <-told
	}
	var mistakes Mistakes
	if !errors.As(s.Err, &mistakes) || mistakes[0].Line != 2 || l.Policy() != before || s.Failed.IsZero() || s.Failures == 0 {
		t.Errorf("%+v", s)
	}
	if err := l.Reload(); err == nil {
		t.Error("a reload of the same file does not say why")
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if s = <-told; !errors.Is(s.Err, os.ErrNotExist) || l.Policy() != before {
		t.Errorf("%+v", s)
	}

	write(t, filepath.Join(filepath.Dir(path), "old"), first)
	if err := os.Rename(filepath.Join(filepath.Dir(path), "old"), path); err != nil {
		t.Fatal(err)
	}
	if s = <-told; s.Err != nil || s.Error != "" || s.Loads != 1 || l.Policy() != before {
		t.Errorf("with the first file back: %+v", s)
	}
}

func TestTheFirstLoadMustSucceed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if _, err := Watch(t.Context(), path, WatchConfig{Log: quiet}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	write(t, path, wrong)
	if _, err := Watch(t.Context(), path, WatchConfig{Log: quiet}); !errors.As(err, new(Mistakes)) {
		t.Error(err)
	}
}

// TestWhatPrepareRefusesIsTriedAgain: what it needs, such as a file with keys,
// may come after the policy that names it.
func TestWhatPrepareRefusesIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, first)
	var missing atomic.Bool
	told := 0
	l, err := Watch(t.Context(), path, WatchConfig{Log: quiet, Poll: time.Hour, Settle: time.Hour, Notify: func(Status) { told++ }, Prepare: func(*Policy) error {
		if missing.Load() {
			return errors.New("no such file")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	missing.Store(true)
	write(t, path, second)
	for range 3 {
		if err := l.Reload(); err == nil || inPlace(l) != "1/s" {
			t.Fatalf("%v, %s", err, inPlace(l))
		}
	}
	missing.Store(false)
	if err := l.Reload(); err != nil || inPlace(l) != "2/s" || told != 3 || l.Status().Failures != 1 {
		t.Errorf("%v, %s, told %d times, %+v", err, inPlace(l), told, l.Status())
	}
}

func TestPrepareCanRefuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, first)
	refuse := errors.New("no such key file")
	var mu sync.Mutex
	var why error
	l, err := Watch(t.Context(), path, WatchConfig{Log: quiet, Poll: time.Hour, Settle: time.Hour, Prepare: func(p *Policy) error {
		mu.Lock()
		defer mu.Unlock()
		return why
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mu.Lock()
	why = refuse
	mu.Unlock()
	write(t, path, second)
	if err := l.Reload(); !errors.Is(err, refuse) || inPlace(l) != "1/s" || l.Status().Err == nil {
		t.Errorf("%v, %s in place", err, inPlace(l))
	}
}

func TestAFixedPolicyStays(t *testing.T) {
	l := Fixed(mustParse(t, first))
	if inPlace(l) != "1/s" || l.Reload() == nil || l.Status().Loads != 1 {
		t.Error("not fixed")
	}
	l.Close()
}

// noticed is a [notices] that the test writes to.
type noticed chan struct{}

func (n noticed) changes() <-chan struct{} { return n }
func (n noticed) again()                   {}
func (n noticed) close()                   {}

// A file that is written in pieces is read once it is left alone, and one
// that is never left alone is read now and then.
func TestChangesSettle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	synctest.Test(t, func(t *testing.T) {
		write(t, path, first)
		var loads atomic.Int64
		l := &Live{path: path, status: Status{Path: path}, config: WatchConfig{
			Settle: 100 * time.Millisecond, Poll: 10 * time.Second, Log: quiet, Notify: func(Status) { loads.Add(1) },
		}}
		if err := l.Reload(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		notices := make(noticed)
		done := make(chan struct{})
		go func() { defer close(done); l.follow(ctx, notices) }()
		expect := func(what string, n int64) {
			t.Helper()
			synctest.Wait()
			if got := loads.Load(); got != n {
				t.Errorf("%s: %d loads, want %d", what, got, n)
			}
		}

		write(t, path, second)
		for range 5 {
			notices <- struct{}{}
			time.Sleep(50 * time.Millisecond)
		}
		expect("while it changes", 1)
		time.Sleep(60 * time.Millisecond)
		expect("settled", 2)

		write(t, path, third)
		for range 25 {
			notices <- struct{}{}
			time.Sleep(50 * time.Millisecond)
		}
		expect("never left alone", 3)

		write(t, path, first)
		time.Sleep(10 * time.Second)
		expect("nothing heard", 4)

		write(t, path, wrong)
		time.Sleep(30 * time.Second)
		expect("refused once, not every time it is looked at", 5)
		cancel()
		<-done
	})
}

// No request may see half of a change: numbers of one file and costs of the
// other.
func TestReadersSeeWholePolicies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	contents := []string{
		"version: 1\nlimits: {global: {limit: 10/s}}\nendpoints: {a: {match: /a, cost: 1}}\n",
		"version: 1\nlimits: {global: {limit: 20/s}}\nendpoints: {a: {match: /a, cost: 2}}\n",
	}
	write(t, path, contents[0])
	l, err := Watch(t.Context(), path, WatchConfig{Log: quiet, Poll: time.Hour, Settle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := l.Policy()
				d := demands(p, p.Match("GET", "/a"), "")[0][0]
				if d.Limit.Amount.Thousandths() != 10*d.Cost.Thousandths() {
					t.Errorf("cost %s under %s", d.Cost, d.Limit)
					return
				}
			}
		})
	}
	for i := range 20 {
		write(t, path, contents[(i+1)%2])
		if err := l.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
}
