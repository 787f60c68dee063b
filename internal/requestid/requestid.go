// Package requestid gives HTTP requests their ids.
package requestid

import (
	"crypto/rand"
	"net/http"
)

// Header is the field that has a request's id, in the request and in the
// response.
const Header = "X-Request-Id"

// longest is the longest id that is accepted, in bytes.
const longest = 128

// Give returns the id of a request: the one it brings, if that can stand in a
// log as it is, or a new one. It sets the id in both headers.
func Give(response, request http.Header) string {
	id := Of(request)
	if id == "" {
		id = rand.Text()
		request[Header] = []string{id}
	}
	response[Header] = []string{id}
	return id
}

// Of returns the id that a request brings, or "" if it brings none that can
// stand in a log as it is.
func Of(request http.Header) string {
	if brought := request[Header]; len(brought) == 1 && sane(brought[0]) {
		return brought[0]
	}
	return ""
}

// sane reports whether an id from outside may be used: it must not be able to
// look like something else in a log, a header or a shell.
func sane(id string) bool {
	if id == "" || len(id) > longest {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=':
		default:
			return false
		}
	}
	return true
}
