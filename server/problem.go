package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice"
)

// problem is an error as RFC 9457 writes it. Field is the part of the request
// that is wrong, if it is one.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	p.Title = http.StatusText(p.Status)
	writeJSON(w, p.Status, "application/problem+json", p)
}

// refuse answers an error. It is the one place where errors become statuses.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var field *sluice.FieldError
	switch {
	case tooLarge(err):
		problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("body: must be at most %d bytes long", maxBody), Field: "body"}.write(w)
	case errors.As(err, &field):
		problem{Status: http.StatusBadRequest, Detail: err.Error(), Field: field.Field}.write(w)
	case errors.Is(err, sluice.ErrUnavailable), errors.Is(err, sluice.ErrUnknown), errors.Is(err, sluice.ErrClosed):
		s.log.ErrorContext(r.Context(), "no decision", "path", r.URL.Path, "error", err)
		problem{Status: http.StatusServiceUnavailable, Detail: "the store gave no answer"}.write(w)
	default:
		s.log.ErrorContext(r.Context(), "no decision", "path", r.URL.Path, "error", err)
		problem{Status: http.StatusInternalServerError, Detail: "the log of the server says why"}.write(w)
	}
}

func tooLarge(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large)
}

// badBody says what is wrong with a body that does not decode.
func badBody(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case tooLarge(err):
		return err
	case errors.As(err, &kind) && kind.Field != "":
		return fieldError(kind.Field, "a "+kind.Value, "must be "+wanted(kind.Type))
	case errors.As(err, &kind):
		return fieldError("body", "a "+kind.Value, "must be "+wanted(kind.Type))
	case errors.As(err, &syntax):
		return fieldError("body", fmt.Sprintf("at byte %d", syntax.Offset), "is not JSON: "+syntax.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fieldError("body", "cut short", "must be a JSON object")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if unquoted, err := strconv.Unquote(name); err == nil {
			name = unquoted
		}
		return fieldError("body", fmt.Sprintf("unknown field %q", clip(name)), "a take has entity, resource, cost, limits and peek")
	}
	return fieldError("body", "unreadable", err.Error())
}

// wanted is how JSON calls what a Go type is read from.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	}
	return "an object"
}

func fieldError(field string, value any, reason string) error {
	return &sluice.FieldError{Field: field, Value: value, Reason: reason}
}

// clip keeps what an error repeats of its input short.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write(out.Bytes()) //nolint:errcheck // the client is gone
}
