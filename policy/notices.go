package policy

import (
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// fileNotices tells of changes in the directories that a file is in: the one
// it is named in, where renames and swapped links show, and the one that
// links lead to.
type fileNotices struct {
	path    string
	watcher *fsnotify.Watcher
	log     *slog.Logger
	changed chan struct{}
}

// newNotices watches a path. Without the system's help it tells of nothing,
// and the file is only read every so often.
func newNotices(path string, log *slog.Logger) notices {
	n := &fileNotices{path: path, log: log, changed: make(chan struct{}, 1)}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("cannot watch the policy file; changes are noticed later", "path", path, "reason", err)
		return n
	}
	n.watcher = w
	n.again()
	go n.pass(w)
	return n
}

// pass turns any number of events into one notice.
func (n *fileNotices) pass(w *fsnotify.Watcher) {
	for {
		select {
		case _, ok := <-w.Events:
			if !ok {
				return
			}
		case _, ok := <-w.Errors: // events may be lost
			if !ok {
				return
			}
		}
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
}

func (n *fileNotices) changes() <-chan struct{} { return n.changed }

// again watches the directories that the file is in now.
func (n *fileNotices) again() {
	if n.watcher == nil {
		return
	}
	want := []string{filepath.Dir(n.path)}
	if target, err := filepath.EvalSymlinks(n.path); err == nil && filepath.Dir(target) != want[0] {
		want = append(want, filepath.Dir(target))
	}
	have := n.watcher.WatchList()
	for _, dir := range want {
		if slices.Contains(have, dir) {
			continue
		}
		if err := n.watcher.Add(dir); err != nil {
			n.log.Warn("cannot watch a directory of the policy file", "directory", dir, "reason", err)
		}
	}
	for _, dir := range have {
		if !slices.Contains(want, dir) {
			_ = n.watcher.Remove(dir) //nolint:errcheck // it is gone already
		}
	}
}

func (n *fileNotices) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() //nolint:errcheck // nobody hears of it any more
	}
}
