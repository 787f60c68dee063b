package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// read decodes a body of one JSON object.
func read[T any](r *http.Request) (*T, error) {
	into := new(T)
	return into, decode(r.Body, into)
}

// readOptional is read for a body that may be left out.
func readOptional[T any](r *http.Request) (*T, error) {
	if r.ContentLength == 0 {
		return new(T), nil
	}
	return read[T](r)
}

func decode[T any](from io.Reader, into *T) error {
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return badBody(err, reflect.TypeFor[T]())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		if tooLarge(err) {
			return err
		}
		return badinput.Field("body", "more than one value", "must be one JSON object")
	}
	return nil
}

func tooLarge(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large)
}

// mostBytes is how long the body may be.
func mostBytes(err error) int64 {
	var large *http.MaxBytesError
	errors.As(err, &large)
	return large.Limit
}

// badBody describes what is wrong with a body that does not decode.
func badBody(err error, into reflect.Type) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var field *sluice.FieldError
	switch {
	case tooLarge(err), errors.As(err, &field): // it says all there is to say
		return err
	case errors.As(err, &kind) && kind.Type == reflect.TypeFor[duration]():
		return badinput.Field(kind.Field, kind.Value, `must be a duration such as "1.5s" or "2h", or a number of milliseconds`)
	case errors.As(err, &kind):
		return badinput.Field(cmp.Or(kind.Field, "body"), "a "+kind.Value, "must be "+wanted(kind.Type))
	case errors.As(err, &syntax):
		return badinput.Field("body", fmt.Sprintf("at byte %d", syntax.Offset), "is not JSON: "+syntax.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return badinput.Field("body", "cut short", "must be a JSON object")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if unquoted, err := strconv.Unquote(name); err == nil {
			name = unquoted
		}
		return badinput.Field("body", fmt.Sprintf("unknown field %q", excerpt.Of(name)), "there are "+fieldsOf(into))
	}
	return badinput.Field("body", "unreadable", err.Error())
}

// fieldsOf are the fields that a body may have.
func fieldsOf(t reflect.Type) string {
	return strings.Join(fieldNames(nil, t), ", ")
}

func fieldNames(names []string, t reflect.Type) []string {
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		} else if f.Anonymous && f.Type.Kind() == reflect.Struct {
			names = fieldNames(names, f.Type)
		}
	}
	return names
}

// wanted is how JSON calls what a Go type is read from.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// duration is written as people say it, "1.5s", or as a number of
// milliseconds.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(b, &text) == nil {
		if parsed, err := time.ParseDuration(text); err == nil {
			*d = duration(parsed)
			return nil
		}
	} else if ms, err := strconv.ParseInt(string(b), 10, 64); err == nil && ms >= 0 && ms <= int64(time.Duration(1<<63-1)/time.Millisecond) {
		*d = duration(ms) * duration(time.Millisecond)
		return nil
	}
	return &json.UnmarshalTypeError{Value: cmp.Or(text, string(b)), Type: reflect.TypeFor[duration]()} // encoding/json adds the field
}
