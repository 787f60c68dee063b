package envoy

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must have been left alone before they are
	// read: whoever writes several does it in a moment.
	settle = 50 * time.Millisecond

	// lookEvery is how often the files are read without being told of a
	// change: not every file system tells, and a link further up may have
	// been replaced.
	lookEvery = 5 * time.Second

	// healthEvery is how often health follows readiness.
	healthEvery = time.Second
)

// watch reads the files again when they change, and follows readiness.
type watch struct {
	service *Service
	events  *fsnotify.Watcher // nil if the system has none to give
	once    sync.Once         // it is stopped
	stop    chan struct{}
	done    chan struct{}
}

func startWatch(s *Service) *watch {
	w := &watch{service: s, stop: make(chan struct{}), done: make(chan struct{})}
	var err error
	if w.events, err = fsnotify.NewWatcher(); err != nil {
		s.log.Warn("envoy: cannot watch the files; changes are noticed later", "every", lookEvery, "error", err)
		w.events = nil
	}
	w.add()
	go w.run()
	return w
}

func (w *watch) close() (err error) {
	w.once.Do(func() {
		close(w.stop)
		<-w.done
		if w.events != nil {
			err = w.events.Close()
		}
	})
	return err
}

// add watches the folder, those below, and the one above it, in which it may
// be a link. What cannot be watched is looked at every few seconds.
func (w *watch) add() {
	if w.events == nil {
		return
	}
	w.folder(filepath.Dir(w.service.dir))
	root, err := filepath.EvalSymlinks(w.service.dir)
	if err != nil {
		return
	}
	w.folder(filepath.Dir(root))
	filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error { //nolint:errcheck // the function returns none
		if err == nil && entry.IsDir() {
			w.folder(path)
		}
		return nil
	})
}

func (w *watch) folder(path string) {
	if err := w.events.Add(path); err != nil {
		w.service.log.Debug("envoy: cannot watch a folder; it is polled", "folder", path, "error", err)
	}
}

func (w *watch) run() {
	defer close(w.done)
	var events <-chan fsnotify.Event
	var failures <-chan error
	if w.events != nil {
		events, failures = w.events.Events, w.events.Errors
	}
	regularly := time.NewTicker(lookEvery)
	defer regularly.Stop()
	settled := time.NewTimer(lookEvery)
	defer settled.Stop()
	health := time.NewTicker(healthEvery)
	defer health.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-health.C:
			w.service.checkHealth()
			continue
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			settled.Reset(settle)
			continue
		case err, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			w.service.log.Warn("envoy: a change of the files may be noticed late", "error", err)
			continue
		case <-regularly.C:
		case <-settled.C:
		}
		w.add()
		if news, err := w.service.reload(); err != nil && news {
			w.service.log.Error("envoy: the limits stay as they are: error loading new configuration", "error", err)
		}
	}
}
