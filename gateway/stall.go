package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// stallWriter breaks a response off whose client takes nothing of it for too
// long. Time without anything to write does not count.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// Unwrap is for [http.ResponseController], through which the proxy flushes
// and takes connections over.
func (w *stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *stallWriter) Write(b []byte) (int, error) {
	w.start()
	defer w.end()
	return w.ResponseWriter.Write(b)
}

// FlushError is what a [http.ResponseController] calls.
func (w *stallWriter) FlushError() error {
	w.start()
	defer w.end()
	return w.control.Flush()
}

func (w *stallWriter) start() {
	w.control.SetWriteDeadline(time.Now().Add(w.timeout)) //nolint:errcheck // where it cannot be set, writing still works
}

// end takes the deadline back: in HTTP/2 it would end a stream that is idle,
// and in HTTP/1 stay for the next response.
func (w *stallWriter) end() {
	w.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
}

// stallReader breaks a request off whose client sends nothing for too long.
type stallReader struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
	stalled *atomic.Bool
}

func (r *stallReader) Read(b []byte) (int, error) {
	deadline := time.Now().Add(r.timeout)
	r.control.SetReadDeadline(deadline) //nolint:errcheck // where it cannot be set, reading still works
	n, err := r.ReadCloser.Read(b)
	if err != nil && err != io.EOF && !time.Now().Before(deadline) {
		r.stalled.Store(true) // and the deadline stays: the rest will not come either
		return n, err
	}
	r.control.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	return n, err
}
