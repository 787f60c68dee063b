package catalog

import (
	"encoding/base64"
	"encoding/json"

	"github.com/sluice-go/sluice/internal/badinput"
)

// EncodeCursor makes a cursor of what a store needs to find the place again.
func EncodeCursor(parts ...string) string {
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings can always be written
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// DecodeCursor reads the parts of a cursor. The empty cursor has no parts.
func DecodeCursor(cursor string, parts int) ([]string, error) {
	if cursor == "" {
		return nil, nil
	}
	bad := badinput.Field("cursor", cursor, "must be what the page before gave as next")
	if len(cursor) > 8<<10 {
		return nil, bad
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, bad
	}
	var got []string
	if json.Unmarshal(data, &got) != nil || len(got) != parts || !storable(got...) {
		return nil, bad
	}
	return got, nil
}
