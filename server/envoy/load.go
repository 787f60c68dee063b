package envoy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFiles is how many files a folder may have, below it included.
const maxFiles = 10_000

// Reload loads the files if they have changed since they were last loaded. If
// they are invalid, the limits stay as they were. It is called automatically
// when files change.
func (s *Service) Reload() error {
	_, err := s.reload()
	return err
}

// reload also reports whether there is anything new, be it a mistake.
func (s *Service) reload() (news bool, err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	contents, digest, err := s.read()
	if err == nil && digest == s.loaded && s.known {
		return false, s.mistake
	}
	if err == nil {
		s.loaded, s.known = digest, true
		err = s.load(contents)
	} else {
		s.known = false
	}
	news = err == nil || s.mistake == nil || s.mistake.Error() != err.Error()
	s.mistake = err
	if err != nil {
		s.counts.configErrors.Add(1)
		return news, err
	}
	s.counts.configOK.Add(1)
	s.checkHealth()
	s.log.Info("envoy: limits loaded", "folder", s.dir, "files", len(contents), "domains", len(s.tree.Load().domains))
	return news, nil
}

func (s *Service) load(contents []content) error {
	var files []file
	for _, c := range contents {
		root, err := parseFile(c.name, c.bytes)
		if err != nil {
			return err
		}
		files = append(files, file{c.name, root})
	}
	var before map[string]*stats
	if old := s.tree.Load(); old != nil {
		before = old.stats
	}
	t, err := newTree(files, s.settings.MergeDomains, before)
	if err != nil {
		return err
	}
	s.counts.rules.Store(&t.stats)
	s.tree.Store(t)
	return nil
}

// content is one file as it was read.
type content struct {
	name  string
	bytes []byte
}

// read reads all files of the folder and below, in the order of their names,
// with a digest of everything. The folder itself may be a link that is
// replaced, as lyft/goruntime and Kubernetes do.
func (s *Service) read() (contents []content, digest [32]byte, err error) {
	root, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return nil, digest, err
	}
	if info, err := os.Stat(root); err != nil {
		return nil, digest, err
	} else if !info.IsDir() {
		return nil, digest, fmt.Errorf("%s: is not a folder", s.dir)
	}
	hash := sha256.New()
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && s.hidden(entry.Name()) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		if info, err := os.Stat(path); err != nil {
			return err
		} else if !info.Mode().IsRegular() {
			return nil // a link to a folder, a socket
		}
		if len(contents) == maxFiles {
			return fmt.Errorf("%s: has more than %d files", s.dir, maxFiles)
		}
		bytes, err := readFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := s.fileName(relative)
		fmt.Fprintf(hash, "%d %d\n%s", len(name), len(bytes), name) //nolint:errcheck // a hash takes everything
		hash.Write(bytes)
		contents = append(contents, content{name, bytes})
		return nil
	})
	return contents, [32]byte(hash.Sum(nil)), err
}

// readFile reads one file, but no more of it than is too much.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

func (s *Service) hidden(name string) bool {
	return strings.HasPrefix(name, "..") || s.settings.IgnoreDotFiles && strings.HasPrefix(name, ".")
}

// fileName is how envoyproxy/ratelimit calls a file: config.basic.yaml.
func (s *Service) fileName(relative string) string {
	name := strings.ReplaceAll(filepath.ToSlash(relative), "/", ".")
	if s.settings.PlainNames {
		return name
	}
	return filepath.Base(s.dir) + "." + name
}
