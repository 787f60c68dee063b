package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Live is a policy that follows its file. Readers take the policy once for
// each request, so none sees half of a change.
type Live struct {
	path    string
	config  WatchConfig
	current atomic.Pointer[Policy]

	mu     sync.Mutex // for one load at a time, and for what follows
	loaded [sha256.Size]byte
	tried  [sha256.Size]byte
	status Status

	stop context.CancelFunc
	done chan struct{}
}

// WatchConfig configures [Watch]. The zero WatchConfig is ready to use.
type WatchConfig struct {
	// Prepare is called with a policy before it replaces the current one; an
	// error rejects it. It is where files that the policy names
	// are opened. Nil accepts every policy that is valid.
	Prepare func(*Policy) error

	// Notify is called after every attempt to load the file. It must not block.
	Notify func(Status)

	// Settle is how long the file must be left alone before it is read, so
	// that one that is written in pieces is read once. 0 means 100 ms.
	Settle time.Duration

	// Poll is how often the file is read even without a notification, for file
	// systems that send none. 0 means 10 s.
	Poll time.Duration

	// Log receives a line for every attempt. Nil means slog.Default.
	Log *slog.Logger
}

// Status is the state of a [Live] policy, for health checks and metrics.
type Status struct {
	Path     string    `json:"path"`
	Revision string    `json:"revision"` // of the policy in place
	Loaded   time.Time `json:"loaded"`   // when it was put there
	Loads    int64     `json:"loads"`    // policies put in place, the first one included
	Failures int64     `json:"failures"` // files refused

	// Err is why the current file is not the policy in use, or nil if it is.
	// It may be [Mistakes].
	Err    error     `json:"-"`
	Error  string    `json:"error,omitempty"` // the same as text
	Failed time.Time `json:"failed,omitzero"` // since when
}

// Fixed returns a live policy that never changes.
func Fixed(p *Policy) *Live {
	l := &Live{status: Status{Revision: p.Revision, Loaded: time.Now(), Loads: 1}, stop: func() {}, done: make(chan struct{})}
	l.current.Store(p)
	close(l.done)
	return l
}

// Watch loads a policy file and follows it until ctx ends or the Live is
// closed. A file that is changed, replaced or reached by another symbolic
// link is loaded as a whole; one with mistakes changes nothing but the status.
// The first load must succeed.
func Watch(ctx context.Context, path string, config WatchConfig) (*Live, error) {
	or(&config.Settle, 100*time.Millisecond)
	or(&config.Poll, 10*time.Second)
	if config.Log == nil {
		config.Log = slog.Default()
	}
	l := &Live{path: path, config: config, status: Status{Path: path}, done: make(chan struct{})}
	n := newNotices(path, config.Log) // first: no change after the load is missed
	if err := l.Reload(); err != nil {
		n.close()
		return nil, err
	}
	ctx, l.stop = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		defer n.close()
		l.follow(ctx, n)
	}()
	return l, nil
}

// Policy returns the policy in use.
func (l *Live) Policy() *Policy { return l.current.Load() }

// Status returns the state of the policy and its file.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Close stops following the file. The policy stays.
func (l *Live) Close() {
	l.stop()
	<-l.done
}

// notices tells of changes around a file.
type notices interface {
	changes() <-chan struct{}
	again() // what is watched may have to change
	close()
}

// follow loads the file after it changed and settled, and every so often.
func (l *Live) follow(ctx context.Context, n notices) {
	poll := time.NewTicker(l.config.Poll)
	defer poll.Stop()
	var settled <-chan time.Time
	var latest time.Time // a file that is written to all the time is read, too
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.changes():
			if settled == nil {
				latest = time.Now().Add(10 * l.config.Settle)
			}
			settled = time.After(min(l.config.Settle, time.Until(latest)))
			continue
		case <-settled:
			settled = nil
		case <-poll.C:
		}
		_ = l.Reload() //nolint:errcheck // it is in the status and the log
		n.again()
	}
}

// Reload loads the file now if it differs from what was loaded, and from what
// was refused for its mistakes, last. The error is why the file is not the policy in place.
func (l *Live) Reload() error {
	if l.path == "" {
		return errors.New("a fixed policy has no file to load")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	content, err := read(l.path)
	if err != nil {
		l.tried = [sha256.Size]byte{}
		return l.refuse(err)
	}
	sum := sha256.Sum256(content)
	switch {
	case sum == l.loaded && l.status.Loads > 0:
		l.tried = sum
		if l.status.Err != nil {
			l.status.Err, l.status.Error, l.status.Failed = nil, "", time.Time{}
			l.config.Log.Info("the policy file matches the policy in effect again", "path", l.path, "revision", l.status.Revision)
			l.notify()
		}
		return nil
	case sum == l.tried:
		return l.status.Err
	}
	l.tried = sum
	p, err := Parse(l.path, content)
	if err == nil && l.config.Prepare != nil {
		if err = l.config.Prepare(p); err != nil {
			err = fmt.Errorf("%s: %w", l.path, err)
			l.tried = [sha256.Size]byte{} // what it misses may come later than the file
		}
	}
	if err != nil {
		return l.refuse(err)
	}
	l.current.Store(p)
	l.loaded = sum
	l.status = Status{Path: l.path, Revision: p.Revision, Loaded: time.Now(), Loads: l.status.Loads + 1, Failures: l.status.Failures}
	l.config.Log.Info("policy loaded", "path", l.path, "revision", p.Revision)
	l.notify()
	return nil
}

// refuse keeps the policy in place and says why, once for the same reason.
func (l *Live) refuse(err error) error {
	again := l.status.Err != nil && l.status.Err.Error() == err.Error()
	if l.status.Err == nil {
		l.status.Failed = time.Now()
	}
	l.status.Err, l.status.Error = err, err.Error()
	if !again {
		l.status.Failures++
		if l.status.Loads > 0 {
			l.config.Log.Error("policy rejected; the previous one stays in effect", "path", l.path, "revision", l.status.Revision, "reason", err)
		}
		l.notify()
	}
	return err
}

func (l *Live) notify() {
	if l.config.Notify != nil {
		l.config.Notify(l.status)
	}
}
