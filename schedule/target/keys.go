package target

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/webhook"
	"github.com/sluice-go/sluice/schedule"
)

// MinKey is the length that a key has at least, in bytes.
const MinKey = 32

// Keys seal the secrets of targets with AES-256 in GCM. What is sealed can be
// opened only for the same plan and the same scheme and host of its URL, so that a
// secret cannot be had by sending it elsewhere.
type Keys struct{ keys []key }

type key struct {
	id   string
	aead cipher.AEAD
}

const idSize = 4

// NewKeys returns keys made from secrets of at least [MinKey] bytes. The first one
// seals; what any of them has sealed can be opened.
func NewKeys(secrets ...string) (*Keys, error) {
	k := &Keys{}
	for _, secret := range secrets {
		if len(secret) < MinKey {
			return nil, fmt.Errorf("a key that seals must be at least %d bytes long", MinKey)
		}
		derived, err := hkdf.Key(sha256.New, []byte(secret), nil, "sluice seal 1", 32+idSize)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(derived[:32])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		k.keys = append(k.keys, key{string(derived[32:]), aead})
	}
	if len(k.keys) == 0 {
		return nil, errors.New("there is no key to seal with")
	}
	return k, nil
}

// place is what a secret is sealed for.
func place(namespace, plan string, t *schedule.Target, name string) []byte {
	to, err := url.Parse(t.URL)
	if err != nil {
		to = &url.URL{}
	}
	var b []byte
	for _, part := range []string{namespace, plan, strings.ToLower(to.Scheme + "://" + to.Host), strings.ToLower(name)} {
		b = fmt.Appendf(b, "%d:%s", len(part), part)
	}
	return b
}

func (k *Keys) seal(secret string, place []byte) string {
	first := k.keys[0]
	return schedule.Sealed + base64.RawURLEncoding.EncodeToString(first.aead.Seal([]byte(first.id), nil, []byte(secret), place))
}

var errNotOpened = errors.New("was sealed for another plan or host, or by a key that this server does not have: give it again")

func (k *Keys) open(sealed string, place []byte) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, schedule.Sealed))
	if err != nil || len(b) < idSize || k == nil {
		return "", errNotOpened
	}
	for _, key := range k.keys {
		if string(b[:idSize]) == key.id {
			if secret, err := key.aead.Open(nil, nil, b[idSize:], place); err == nil {
				return string(secret), nil
			}
		}
	}
	return "", errNotOpened
}

// Seal returns t with its secrets sealed, all by the first key. Those that are
// sealed already must be t's own.
func (k *Keys) Seal(namespace, plan string, t *schedule.Target) (*schedule.Target, error) {
	sealed := *t
	sealed.Headers, sealed.Secrets = maps.Clone(t.Headers), slices.Clone(t.Secrets)
	if k == nil && len(t.Headers)+len(t.Secrets) > 0 {
		return nil, badinput.Field("target.secrets", "…", "secrets and values of headers cannot be kept: start all servers with the same --seal-key")
	}
	again := func(field, name, value string) (string, error) {
		if strings.HasPrefix(value, schedule.Sealed) {
			var err error
			if value, err = k.open(value, place(namespace, plan, t, name)); err != nil {
				return "", badinput.Field("target."+field, name, err.Error())
			}
		}
		switch _, err := webhook.Key(value); {
		case field == "secrets" && value == "":
			return "", badinput.Field("target."+field, "", "must not be empty")
		case field == "secrets" && err != nil:
			return "", badinput.Field("target."+field, "…", err.Error())
		case field == "headers" && !httpguts.ValidHeaderFieldValue(value):
			return "", badinput.Field("target."+field, name, "must have a value without control characters")
		}
		return k.seal(value, place(namespace, plan, t, name)), nil
	}
	var err error
	for name, value := range sealed.Headers {
		if sealed.Headers[name], err = again("headers", name, value); err != nil {
			return nil, err
		}
	}
	for i := range sealed.Secrets {
		if sealed.Secrets[i].Secret, err = again("secrets", secretName, sealed.Secrets[i].Secret); err != nil {
			return nil, err
		}
	}
	return &sealed, nil
}

// secretName is what signing secrets are sealed as: no header is called so.
const secretName = "signing secret"

// opened are the secrets of a target.
type opened struct {
	headers http.Header
	signs   []signer
}

type signer struct {
	key   []byte
	until time.Time
}

// keys are those that sign at a time.
func (o *opened) keys(now time.Time) (keys [][]byte) {
	for _, s := range o.signs {
		if s.until.IsZero() || s.until.After(now) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

func (k *Keys) openAll(namespace, plan string, t *schedule.Target) (o opened, err error) {
	o.headers = http.Header{}
	for name, sealed := range t.Headers {
		value, err := k.open(sealed, place(namespace, plan, t, name))
		if err != nil {
			return o, fmt.Errorf("header %s: %w", name, err)
		}
		o.headers.Set(name, value)
	}
	for _, s := range t.Secrets {
		secret, err := k.open(s.Secret, place(namespace, plan, t, secretName))
		if err != nil {
			return o, fmt.Errorf("secret: %w", err)
		}
		key, err := webhook.Key(secret)
		if err != nil {
			return o, fmt.Errorf("secret: %w", err)
		}
		o.signs = append(o.signs, signer{key, s.Until})
	}
	return o, nil
}
