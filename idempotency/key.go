package idempotency

import (
	"errors"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-go/sluice"
)

// KeyHeader is the request header that carries the key.
const KeyHeader = "Idempotency-Key"

var (
	errManyKey = errors.New("there is more than one " + KeyHeader)
	errKey     = errors.New(`it must be a string in double quotes, or 1 to 255 letters, digits and marks without spaces, commas, semicolons and quotes; a UUID is best`)
	errKeySize = errors.New("it must be 1 to 255 characters long")
)

// KeyOf reads the key of a request: a string as in structured fields
// ("8e03978e"), or the same without quotes, as most clients send it. Both mean
// the same key. ok is false if there is none.
func KeyOf(h http.Header) (key string, ok bool, err error) {
	values := h.Values(KeyHeader)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, errManyKey
	}
	value := strings.Trim(values[0], " \t")
	if strings.HasPrefix(value, `"`) {
		if len(value) > 4*MaxKey { // before any work is done on it
			return "", true, errKeySize
		}
		// Parameters are passed over, as structured fields want it.
		item, err := httpsfv.UnmarshalItem([]string{value})
		if err != nil {
			return "", true, errKey
		}
		if key, ok = item.Value.(string); !ok {
			return "", true, errKey
		}
	} else {
		for _, c := range []byte(value) {
			if c <= ' ' || c >= 0x7f || strings.IndexByte(`",;`, c) >= 0 {
				return "", true, errKey
			}
		}
		key = value
	}
	if len(key) < 1 || len(key) > MaxKey {
		return "", true, errKeySize
	}
	return key, true, nil
}

// SetKey gives a request its key, as a string of structured fields; none if key
// is "".
func SetKey(h http.Header, key string) error {
	if key == "" {
		return nil
	}
	text, err := httpsfv.Marshal(httpsfv.NewItem(key))
	if err != nil || len(key) > MaxKey {
		return &sluice.FieldError{Field: KeyHeader, Value: key, Reason: "must be 1 to 255 printable ASCII characters"}
	}
	h.Set(KeyHeader, text)
	return nil
}
