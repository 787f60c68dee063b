package limitstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/redis"
)

// directory says where in a cluster a take with an id has its parts. It is
// kept in the id's own slot, where any node finds it, and written before the
// take. A part is a receipt in the slot of its record, of which nobody knows
// but the directory: its name is random, so that one attempt never touches
// what another has taken.
type directory struct {
	Version int
	Status  string
	Attempt string // names the parts
	Print   []byte // of the take
	Parts   []part

	// Resumable attempts may be gone on with by anybody. Sluice versions that
	// do not say so gave parts back without writing it down before.
	Resumable bool `json:",omitempty"`
	GivenUp   bool `json:",omitempty"` // by whoever took part by part; not all may be given back yet

	text  string       // as it is stored, to swap it by
	asked *sluice.Take // of a new one
}

const (
	pending = "pending" // somebody is taking part by part
	taken   = "taken"
	undone  = "released"
)

// part is what a take wants of one record.
type part struct {
	Record  []byte
	Demands []partDemand
}

// partDemand is what a settlement has to know before it begins.
type partDemand struct {
	Number      int // in the take
	Limit       []byte
	Cost        int64
	Concurrency bool `json:",omitempty"`
}

// newDirectory is one for a take that is done as t.
func newDirectory(asked, t *sluice.Take, groups [][]int) *directory {
	dir := &directory{Version: version, Status: pending, Attempt: newAttempt(), Print: printOf(asked), Resumable: true, asked: asked}
	for _, which := range groups {
		p := part{Record: []byte(recordKey(&t.Demands[which[0]].Key))}
		for _, i := range which {
			d := &t.Demands[i]
			p.Demands = append(p.Demands, partDemand{
				Number: i, Limit: []byte(d.Key.Limit), Cost: d.Charge().Thousandths(),
				Concurrency: d.Limit.Algorithm == sluice.Concurrency,
			})
		}
		dir.Parts = append(dir.Parts, p)
	}
	return dir
}

func newAttempt() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return hex.EncodeToString(b[:])
}

func (dir *directory) encode() string {
	b, err := json.Marshal(dir)
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return string(b)
}

func (dir *directory) receipt(i int) string { return partKey(string(dir.Parts[i].Record), dir.Attempt) }

// swap replaces a directory, if it is still the one that was read; an empty
// one stands for none. The script is the whole of what a directory needs.
const swap = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
	return 0
end
if ARGV[3] == '0' then
	redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
else
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1`

// sameLife leaves how long a directory lives as it is.
const sameLife time.Duration = 0

// swapDirectory puts a directory in the place of another, as that is stored, and
// reports whether it did.
func (s *Store) swapDirectory(ctx context.Context, id, from string, to *directory, life time.Duration) (bool, error) {
	key := receiptKey(id)
	to.text = to.encode()
	var done bool
	err := s.trying(ctx, func(ctx context.Context) error {
		ms := "0"
		if life != sameLife {
			ms = fmt.Sprint(max(life.Milliseconds(), 1))
		}
		n, err := s.db.Client.Do(ctx, s.db.Client.B().Eval().Script(swap).Numkeys(1).Key(key).Arg(from, to.text, ms).Build()).AsInt64()
		done = n == 1
		return err
	})
	return done, err
}

// readDirectory returns nil if there is none.
func (s *Store) readDirectory(ctx context.Context, id string) (*directory, error) {
	var text string
	err := s.trying(ctx, func(ctx context.Context) error {
		var err error
		text, err = s.db.Client.Do(ctx, s.db.Client.B().Get().Key(receiptKey(id)).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			text, err = "", nil
		}
		return err
	})
	if err != nil || text == "" {
		return nil, err
	}
	dir := &directory{text: text}
	if err := json.Unmarshal([]byte(text), dir); err != nil || dir.Version != version || len(dir.Parts) == 0 {
		return nil, fmt.Errorf("redis: lease %.60q: %w: %d", id, ErrVersion, dir.Version)
	}
	return dir, nil
}

// usedBy reports whether dir stands for something that was taken and not
// released, so that its id cannot be used for another take.
func (s *Store) usedBy(ctx context.Context, dir *directory) (bool, error) {
	if dir.Status != taken {
		return dir.Status == pending, nil
	}
	if len(dir.Parts) > 1 && s.db.Config.Clock == nil {
		return true, nil
	}
	// Of a single part nobody notes how it ended: the receipt knows.
	var raw string
	err := s.trying(ctx, func(ctx context.Context) error {
		var err error
		raw, err = s.db.Client.Do(ctx, s.db.Client.B().Get().Key(dir.receipt(0)).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			raw, err = "", nil
		}
		return err
	})
	const ended, expires = 2, 19 // their places in a receipt
	if err != nil || len(raw) < expires+8 || raw[ended] == byte(sluice.Release) {
		return false, err
	}
	return s.db.Config.Clock == nil || readNumber(raw[expires:]) > s.db.Config.Clock().UnixMicro(), nil
}

// begin has an id stand for the parts of dir. If it stands for the same take
// already, that one's directory is the answer: it was taken, or is to be gone on
// with.
func (s *Store) begin(ctx context.Context, id string, dir *directory, life time.Duration) (*directory, error) {
	if s.db.Config.Clock != nil {
		life = time.Hour // it does not expire by the time of tests
	}
	for range maxBegins {
		old, err := s.readDirectory(ctx, id)
		if err != nil {
			return nil, err
		}
		text := ""
		if old != nil {
			text = old.text
			used, err := s.inTheWay(ctx, old, dir)
			if err != nil || used {
				return old, err
			}
		}
		done, err := s.swapDirectory(ctx, id, text, dir, life)
		if done || err != nil {
			return dir, err
		}
	}
	return nil, errUnderWay
}

// inTheWay reports whether an old directory is of the same take as a new one,
// which then is not needed. It is an error if the new one can neither be
// replaced by it nor take its place.
func (s *Store) inTheWay(ctx context.Context, old, dir *directory) (bool, error) {
	if old.GivenUp && old.Status == pending {
		for i := range old.Parts {
			if _, err := s.undoPart(ctx, string(old.Parts[i].Record), old.Attempt); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	same, used := bucket.Repeats(old.Print, dir.asked, oldPrint), old.Status != undone
	if used && (!same || s.db.Config.Clock != nil && len(old.Parts) > 1) {
		var err error
		if used, err = s.usedBy(ctx, old); err != nil {
			return false, err
		}
	}
	switch {
	case used && !same:
		return false, sluice.ErrRequestMismatch
	case used && old.Status == pending && !old.Resumable:
		return false, errUnderWay
	}
	return used, nil
}

// maxBegins is how often others may come first.
const maxBegins = 5

var errUnderWay = fmt.Errorf("redis: %w: a take with this id is under way", sluice.ErrUnavailable)

// trying does something that may be done twice, like call does.
func (s *Store) trying(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.db.Config.Timeout)
	defer cancel()
	return redis.Retry(ctx, func(bool) error { return do(ctx) })
}
