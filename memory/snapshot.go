package memory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// A snapshot is a header line, a line of JSON for each record, and a last
// line with the number of records and their checksum. It is written to
// another file, synced and renamed, so at any moment the name stands for one
// whole snapshot.
const (
	snapshotHeader = "sluice memory snapshot 1\n"
	maxRecord      = 64 << 20
)

var errDamaged = errors.New("damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// savedRecord is a bucket or a receipt in a snapshot.
type savedRecord struct {
	Key   *sluice.Key   `json:"k,omitempty"`
	Limit *sluice.Limit `json:"l,omitempty"`
	State *bucket.State `json:"s,omitempty"`

	Receipt *savedReceipt `json:"r,omitempty"`
}

type savedReceipt struct {
	Take           sluice.Take
	Decision       sluice.Decision
	Charges        []sluice.Amount
	Taken, Expires int64
	Lease          bool
	Closed         sluice.Action
}

func (r *savedRecord) validate() error {
	switch {
	case r.Receipt != nil:
		if n := len(r.Receipt.Charges); n == 0 || len(r.Receipt.Take.Demands) != n || len(r.Receipt.Decision.Results) != n {
			return errors.New("incomplete receipt")
		}
	case r.Key == nil || r.Limit == nil || r.State == nil:
		return errors.New("incomplete bucket")
	case r.Limit.Algorithm == sluice.SlidingWindow && r.State.Used != 0 && (r.State.Ext == nil || len(r.State.Ext.Counts) != bucket.SubWindows+1):
		return errors.New("incomplete window")
	}
	return nil
}

// Save writes the snapshot now. It does not stop the store: each part of it
// is consistent, but a take over several buckets may be cut in two. That
// matters only if the process then dies, and then later takes are lost too.
func (s *Store) Save() (err error) {
	if s.config.Snapshot == "" {
		return errors.New("memory store: no snapshot file is configured")
	}
	s.snapshot.Lock()
	defer s.snapshot.Unlock()
	name := s.config.Snapshot
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".tmp*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := s.writeSnapshot(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Store) writeSnapshot(w io.Writer) error {
	buf := bufio.NewWriterSize(w, 1<<20)
	if _, err := buf.WriteString(snapshotHeader); err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	enc := json.NewEncoder(io.MultiWriter(buf, sum))
	count := 0
	for i := range s.shards {
		for _, r := range s.copyShard(uint32(i)) {
			if err := enc.Encode(r); err != nil {
				return err
			}
			count++
		}
	}
	for i := range s.receipts {
		for _, r := range s.copyReceipts(&s.receipts[i]) {
			if err := enc.Encode(savedRecord{Receipt: r}); err != nil {
				return err
			}
			count++
		}
	}
	if _, err := fmt.Fprintf(buf, "end %d %08x\n", count, sum.Sum32()); err != nil {
		return err
	}
	return buf.Flush()
}

// copyShard copies what is not full, so that it can be written without the
// lock.
func (s *Store) copyShard(n uint32) []savedRecord {
	sh := s.lockShard(n)
	defer sh.mu.Unlock()
	now := s.clock.now()
	var records []savedRecord
	for _, t := range sh.tables {
		for at := t.next(0); at > 0; at = t.next(at) {
			records = s.copyRecord(records, t, at, now)
		}
	}
	return records
}

// copyRecord appends the buckets of a record, one after the other, unless all
// of them are full.
func (s *Store) copyRecord(records []savedRecord, t *table, at int, now int64) []savedRecord {
	h := t.head(at)
	sc := s.scopes.get(h.scope())
	entity, idle := t.entity(h), true
	before := len(records)
	for i := range sc.limits {
		l := &sc.limits[i]
		st := t.read(at, i)
		v := l.spec.View(&st, now)
		idle = idle && v.Idle()
		st.Ext = st.Ext.Clone()
		key := sc.key(entity, i)
		records = append(records, savedRecord{Key: &key, Limit: &l.limit, State: &st})
	}
	if idle {
		records = records[:before]
	}
	return records
}

func (s *Store) copyReceipts(rs *receipts) []*savedReceipt {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := s.clock.now()
	saved := make([]*savedReceipt, 0, len(rs.byID))
	for _, r := range rs.byID {
		if r.expires > now {
			saved = append(saved, r.save())
		}
	}
	return saved
}

func (r *receipt) save() *savedReceipt {
	saved := &savedReceipt{
		Take: r.take, Decision: r.decision,
		Taken: r.taken, Expires: r.expires, Lease: r.lease, Closed: r.closed,
	}
	for _, n := range r.charges {
		saved.Charges = append(saved.Charges, sluice.Thousandths(n))
	}
	return saved
}

// load reads the snapshot, if there is one.
func (s *Store) load() error {
	name := s.config.Snapshot
	for _, left := range leftovers(name) {
		os.Remove(left) //nolint:errcheck // a half-written file of a process that died
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("memory store: snapshot: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	// The first reading only checks, so that a damaged file changes nothing.
	err = readSnapshot(f, (*savedRecord).validate)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		r := restorer{store: s}
		err = errors.Join(readSnapshot(f, r.add), r.flush())
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, errDamaged) {
		return fmt.Errorf("memory store: snapshot: %w", err)
	}
	aside := name + ".damaged"
	if renameErr := os.Rename(name, aside); renameErr != nil {
		return fmt.Errorf("memory store: damaged snapshot %s cannot be set aside: %w", name, renameErr)
	}
	s.damaged.Add(1)
	s.config.Log.Error("snapshot is damaged: starting empty", "set_aside", aside, "error", err)
	return nil
}

func leftovers(name string) []string {
	all, _ := filepath.Glob(name + ".tmp*")
	return all
}

// readSnapshot reads all records and checks that they are whole. What is
// wrong with the content, not with reading it, is errDamaged.
func readSnapshot(r io.Reader, each func(*savedRecord) error) error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", errDamaged, fmt.Errorf(format, args...))
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxRecord)
	header := lines.Scan()
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	if !header || lines.Text()+"\n" != snapshotHeader {
		return damaged("the first line is not %q", strings.TrimSpace(snapshotHeader))
	}
	sum := crc32.New(castagnoli)
	for count := 0; lines.Scan(); count++ {
		line := lines.Bytes()
		if end, ok := bytes.CutPrefix(line, []byte("end ")); ok {
			if want := fmt.Sprintf("%d %08x", count, sum.Sum32()); string(end) != want {
				return damaged("checksum: found %q, want %q", end, want)
			}
			if lines.Scan() {
				return damaged("something follows the last line")
			}
			return lines.Err()
		}
		sum.Write(line)         //nolint:errcheck // never fails
		sum.Write([]byte{'\n'}) //nolint:errcheck // never fails
		var rec savedRecord
		err := json.Unmarshal(line, &rec)
		if err == nil {
			err = each(&rec)
		}
		if err != nil {
			return damaged("record %d: %w", count+1, err)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return damaged("the last line is missing")
}

// restorer puts records into a store that nobody uses yet. Buckets of one
// subject that follow each other share a record again.
type restorer struct {
	store   *Store
	places  []place
	demands []sluice.Demand
}

func (r *restorer) add(saved *savedRecord) error {
	if saved.Receipt != nil {
		r.store.restoreReceipt(saved.Receipt)
		return nil
	}
	p := place{state: *saved.State, changed: true}
	p.name(r.store, saved.Key)
	if n := len(r.places); n == maxGroup || n > 0 && !r.places[0].joins(&p, &r.demands[0].Key, saved.Key) {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.places = append(r.places, p)
	r.demands = append(r.demands, sluice.Demand{Key: *saved.Key, Limit: *saved.Limit})
	return nil
}

func (r *restorer) flush() error {
	if err := r.store.group(r.places, r.demands, 0); err != nil {
		return err
	}
	r.store.lock(r.places)
	r.store.exit(r.places)
	r.places, r.demands = r.places[:0], r.demands[:0]
	return nil
}

func (s *Store) restoreReceipt(saved *savedReceipt) {
	id := saved.Take.ID
	r := &receipt{
		take: saved.Take, decision: saved.Decision,
		taken: saved.Taken, expires: saved.Expires, lease: saved.Lease, closed: saved.Closed,
	}
	for _, n := range saved.Charges {
		r.charges = append(r.charges, n.Thousandths())
	}
	s.keep(s.receiptsOf(id), id, r)
}
