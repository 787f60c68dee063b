package catalog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
	"time"
)

// hashes makes the keyed hash of API keys. Making its state costs more than
// the hash of a short key, so states are used again.
type hashes struct{ pool sync.Pool }

func newHashes(secret []byte) *hashes {
	return &hashes{sync.Pool{New: func() any {
		return &hashState{mac: hmac.New(sha256.New, secret)}
	}}}
}

type hashState struct {
	mac hash.Hash
	in  [maxClear]byte
	out [sha256.Size]byte
}

func (h *hashes) sum(clear string) [sha256.Size]byte {
	s := h.pool.Get().(*hashState)
	defer h.pool.Put(s)
	s.mac.Reset()
	for len(clear) > 0 {
		n := copy(s.in[:], clear)
		s.mac.Write(s.in[:n]) //nolint:errcheck // it never fails
		clear = clear[n:]
	}
	s.mac.Sum(s.out[:0])
	s.in = [maxClear]byte{} // no key stays behind
	return s.out
}

// VerifyKey finds out whose API key this is. It is answered from memory for
// as long as it is, and revoking acts here at once and elsewhere within a
// second. A node that cannot reach the store trusts a key that it knows for a
// minute more. The error is [ErrKey] if the key is not valid; any other means
// that it could not be found out.
//
// The key is the caller's to read but not to change.
func (c *Catalog) VerifyKey(ctx context.Context, clear string) (*Key, error) {
	id := keyID(clear)
	if id == "" {
		return nil, ErrKey
	}
	k, err := c.keys.get(ctx, id)
	if err != nil {
		return nil, err
	}
	sum := c.hashes.sum(clear)
	if k == nil || !hmac.Equal(sum[:], k.hash) {
		return nil, ErrKey
	}
	now := c.config.Clock()
	if !k.valid(now) {
		return nil, ErrKey
	}
	c.uses.note(k, now)
	return &k.Key, nil
}

// useEvery is how often it is written down that keys were used.
const useEvery = 5 * time.Second

// uses collects when keys were used, to write many at once.
type uses struct {
	sync.Mutex
	latest map[string]Use // by id
}

func (u *uses) note(k *storedKey, at time.Time) {
	u.Lock()
	defer u.Unlock()
	if u.latest == nil {
		u.latest = map[string]Use{}
	}
	if old, ok := u.latest[k.ID]; ok && !at.After(old.At) {
		return
	}
	u.latest[k.ID] = Use{Namespace: k.Namespace, ID: k.ID, At: at}
}

func (u *uses) drain() []Use {
	u.Lock()
	defer u.Unlock()
	all := make([]Use, 0, len(u.latest))
	for _, use := range u.latest {
		all = append(all, use)
	}
	clear(u.latest)
	return all
}

// markUsed writes down when keys were used, now and then and at the end. If
// it cannot, that is forgotten until they are used again.
func (c *Catalog) markUsed(ctx context.Context) {
	write := func() { // what is begun is finished when the catalog closes
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		c.writeUses(bounded)
	}
	tick := time.NewTicker(useEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			write()
		case <-ctx.Done():
			write()
			return
		}
	}
}

func (c *Catalog) writeUses(ctx context.Context) {
	all := c.uses.drain()
	for size := c.store.MaxBatch(); len(all) > 0; {
		n := min(len(all), size, 1000)
		if err := c.store.MarkUsed(ctx, all[:n]); err != nil {
			c.config.Log.Warn("catalog: it was not written down when keys were used", "keys", len(all), "error", err)
			return
		}
		all = all[n:]
	}
}
