package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/sluice-go/sluice"
)

// maxKeyLength is the longest API key, in bytes. Nobody issues longer ones,
// and hashing must stay cheap for whoever sends garbage.
const maxKeyLength = 512

type staticKey struct {
	Verified
	expires time.Time
}

// staticKeys indexes keys by their hash, so that looking one up takes the
// same time however much of it is right.
func staticKeys(keys []Key) map[[32]byte]staticKey {
	if len(keys) == 0 {
		return nil
	}
	index := make(map[[32]byte]staticKey, len(keys))
	for _, k := range keys {
		var hash [32]byte
		hex.Decode(hash[:], []byte(k.SHA256)) //nolint:errcheck // Check has decoded it before
		v := Verified{Key: "key:" + k.Name, Entity: k.Entity, Tier: k.Tier, Scopes: k.Scopes}
		if v.Entity == "" {
			v.Entity = v.Key
		}
		index[hash] = staticKey{Verified: v, expires: k.Expires}
	}
	return index
}

func (i *Identifier) key(ctx context.Context, key string, id *Identity) error {
	if len(key) > maxKeyLength {
		return &InvalidError{Kind: ByKey, Reason: "it is too long"}
	}
	var buffer [64]byte // enough for most; longer keys are moved to the heap
	if k, ok := i.keys[sha256.Sum256(append(buffer[:0], key...))]; ok {
		if !k.valid(time.Now()) {
			return &InvalidError{Kind: ByKey, Reason: "it has expired"}
		}
		id.known(&k.Verified)
		return nil
	}
	if i.verify == nil {
		return &InvalidError{Kind: ByKey, Reason: "it is not known"}
	}
	v, err := i.verify(ctx, key)
	switch {
	case errors.Is(err, ErrNoKey):
		return &InvalidError{Kind: ByKey, Reason: err.Error()}
	case err != nil:
		return err
	case v.Entity == "" || len(v.Entity) > sluice.MaxKeyPart || len(v.Key) > sluice.MaxKeyPart:
		return &InvalidError{Kind: ByKey, Reason: "its entity has no usable name"}
	}
	id.known(&v)
	return nil
}

func (i *Identity) known(v *Verified) {
	i.Kind, i.Entity, i.Key, i.Tier, i.Scopes = ByKey, v.Entity, v.Key, v.Tier, v.Scopes
}
