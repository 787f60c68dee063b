package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/badinput"
)

// What is stored is read and changed in the same few ways: pages follow each
// other by cursor, a version is an ETag, and If-Match changes only that
// version.

// stored is a request about the catalog.
type stored struct {
	*http.Request
	*server
	caller    *caller
	namespace string
	query     url.Values
	cursor    string
	most      int   // how long a page may be
	version   int64 // the only one to change; 0 for any
}

// stored reads what requests about stored things have in common.
func (s *server) stored(r *http.Request, c *caller) (q *stored, err error) {
	q = &stored{Request: r, server: s, caller: c, query: r.URL.Query()}
	q.cursor = q.query.Get("cursor")
	if q.namespace, err = s.namespaceOf(r, c); err != nil {
		return nil, err
	}
	if q.most, err = readMax(q.query.Get("max")); err != nil {
		return nil, err
	}
	if header := r.Header.Get("If-Match"); header != "" && header != "*" {
		q.version, err = strconv.ParseInt(strings.Trim(header, `"`), 10, 64)
		if err != nil || q.version <= 0 {
			return nil, badinput.Field("If-Match", header, "must be the ETag of an earlier answer")
		}
	}
	return q, nil
}

// about makes a route's function of one about the catalog.
func about(handle func(*stored, http.ResponseWriter) error) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, c *caller) error {
		if s.catalog == nil {
			return errNoCatalog
		}
		q, err := s.stored(r, c)
		if err != nil {
			return err
		}
		return handle(q, w)
	}
}

// with is about for a function that reads a body.
func with[T any](handle func(*stored, http.ResponseWriter, *T) error) handler {
	return about(func(q *stored, w http.ResponseWriter) error {
		body, err := read[T](q.Request)
		if err != nil {
			return err
		}
		return handle(q, w, body)
	})
}

// edit is for changing the namespace in the caller's name.
func (q *stored) edit() *catalog.Editor { return q.catalog.Edit(q.namespace, by(q.Request, q.caller)) }

// noVersion refuses If-Match where it would not be minded.
func (q *stored) noVersion() error {
	if q.version != 0 {
		return badinput.Field("If-Match", q.Header.Get("If-Match"), "is not supported here")
	}
	return nil
}

// refers tells what was not found when something was stored: if it is not the
// namespace, it is what the thing refers to.
func (q *stored) refers(err error) error {
	if !isNotFound(err) {
		return err
	}
	if n, lost := q.catalog.Namespace(q.Context(), q.namespace); lost != nil || n.Deleting {
		return err
	}
	return &referenceError{err}
}

// flag reads a parameter that is true or false.
func (q *stored) flag(name string) (bool, error) {
	switch text := q.query.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badinput.Field(name, text, "must be true or false")
	}
}

// time reads a parameter that is a time; zero if it is not there.
func (q *stored) time(name string) (time.Time, error) {
	text := q.query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, badinput.Field(name, text, "must be a time such as 2026-01-31T12:00:00Z")
	}
	return t, nil
}

// between reads the parameters from and to.
func (q *stored) between() (from, to time.Time, err error) {
	if from, err = q.time("from"); err == nil {
		to, err = q.time("to")
	}
	return from, to, err
}

// show answers a thing with its version.
func show(w http.ResponseWriter, status int, thing any, version int64, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+strconv.FormatInt(version, 10)+`"`)
	writeJSON(w, status, "application/json", thing)
	return nil
}

// list answers a page.
func list[T any](w http.ResponseWriter, page T, err error) error {
	if err == nil {
		writeJSON(w, http.StatusOK, "application/json", page)
	}
	return err
}

// done answers that there is nothing to say.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// orEmpty is an empty list rather than none, which JSON tells apart.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
