package server

import (
	"bytes"
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
	"github.com/sluice-go/sluice/internal/exactjson"
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
	body, err := io.ReadAll(from)
	if err != nil {
		return badBody(err, reflect.TypeFor[T]())
	}
	return decodeBytes(body, into)
}

func decodeBytes[T any](body []byte, into *T) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return badBody(err, reflect.TypeFor[T]())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badinput.Field("body", "more than one value", "must be one JSON object")
	}
	return exactjson.Check(body, reflect.TypeFor[T]())
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
		return badinput.Field(kind.Field, kind.Value, rightDuration(kind.Value))
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
		reason := "there are " + fieldsOf(into)
		if name == "id" && into == reflect.TypeFor[takeRequest]() {
			reason += "; what makes it safe to repeat is the header Idempotency-Key"
		}
		return badinput.Field("body", fmt.Sprintf("unknown field %q", excerpt.Of(name)), reason)
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
	case reflect.Struct:
		if t == reflect.TypeFor[sluice.Amount]() {
			return "a number"
		}
	}
	return "an object"
}

// duration is written with its unit: "1.5s".
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
	}
	return &json.UnmarshalTypeError{Value: cmp.Or(text, string(b)), Type: reflect.TypeFor[duration]()} // encoding/json adds the field
}

// rightDuration says what would be right in place of a wrong duration.
func rightDuration(wrong string) string {
	if _, err := strconv.ParseFloat(wrong, 64); err == nil {
		return fmt.Sprintf(`must be a string with a unit: "%[1]ss" for seconds, "%[1]sms" for milliseconds`, excerpt.Of(wrong))
	}
	return `must be a duration such as "1.5s", "500ms" or "2h"`
}
