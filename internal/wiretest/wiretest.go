// Package wiretest sends requests in tests, as a client or byte by byte.
package wiretest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Do sends a request and returns the response and its body. It follows no
// redirects. Headers come in pairs.
func Do(t testing.TB, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	return read(t, response, err, url)
}

// Write sends text to a host and port as it is, and returns the response and its
// body.
func Write(t testing.TB, address, text string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // then reading fails
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	return read(t, response, err, text)
}

func read(t testing.TB, response *http.Response, err error, about string) (*http.Response, string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%.60q: %v", about, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%.60q: %v", about, err)
	}
	return response, string(body)
}
