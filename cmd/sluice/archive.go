package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

// archiveName is the name of an archive in a folder.
func archiveName(namespace string, before time.Time) string {
	return fmt.Sprintf("audit-%s-before-%s.jsonl.gz", cmp.Or(namespace, catalog.DefaultNamespace), before.UTC().Format("20060102T150405.000000Z"))
}

// moveAudit has events written to a new file, reads it back, and has the events
// in it removed from the log. It returns how many these are; if there are none,
// there is no file.
func moveAudit(path string, write func(io.Writer) error, prune func(n int) error) (int, error) {
	n, err := writeNew(path, func(f *os.File) (int, error) {
		if err := write(f); err != nil {
			return 0, err
		}
		return countArchived(f)
	})
	if err != nil || n == 0 {
		return 0, err
	}
	if err := prune(n); err != nil {
		return n, fmt.Errorf("%s is written, and the log is as it was: %w", path, err)
	}
	return n, nil
}

// writeNew writes a file that appears under its name only when it is complete
// and on the disk, and that must not exist. It writes none if write returns 0.
func writeNew(path string, write func(*os.File) (int, error)) (n int, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".sluice-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	n, err = write(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil || n == 0 {
		return 0, err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike renaming, it replaces nothing
		return 0, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	return n, errors.Join(dir.Sync(), dir.Close())
}

// countArchived reads an archive back, and returns how many events it has.
func countArchived(f *os.File) (n int, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	zip, err := gzip.NewReader(f)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			return 0, fmt.Errorf("line %d of the archive is not JSON", n+1)
		}
		n++
	}
	return n, lines.Err()
}

// maxDifference is how much of a change is shown in a table.
const maxDifference = 200

// unremarkable are fields that say what the other columns do.
var unremarkable = []string{"id", "entity", "namespace", "version", "created", "updated"}

// difference says what is different between two records, each field once.
func difference(before, after json.RawMessage) string {
	was, is := map[string]string{}, map[string]string{}
	leaves("", before, was)
	leaves("", after, is)
	var all []string
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, had := was[name]
		now, has := is[name]
		switch {
		case slices.Contains(unremarkable, name), old == now && had == has:
		case !had:
			all = append(all, name+": "+now)
		case !has:
			all = append(all, name+": "+old+" -> none")
		default:
			all = append(all, name+": "+old+" -> "+now)
		}
	}
	text := []rune(strings.Join(all, ", "))
	if len(text) > maxDifference {
		text = append(text[:maxDifference-1], '…')
	}
	return string(text)
}

// leaves adds the values of a record by their names, those inside others as
// outer.inner.
func leaves(name string, data json.RawMessage, to map[string]string) {
	var inside map[string]json.RawMessage
	if json.Unmarshal(data, &inside) == nil && inside != nil {
		for inner, value := range inside {
			leaves(strings.TrimPrefix(name+"."+inner, "."), value, to)
		}
		return
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	if len(data) > 0 {
		to[name] = text
	}
}
