package tracing

import "net/http"

// statusWriter remembers what was answered.
type statusWriter struct {
	http.ResponseWriter
	status  int
	written int64
}

// WriteHeader notes the final status; those below 200 but for a change of
// protocol only announce it.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// Unwrap lets an [http.ResponseController] find what this writer cannot do.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for those who do not ask a controller.
func (w *statusWriter) Flush() {
	http.NewResponseController(w.ResponseWriter).Flush() //nolint:errcheck // a Flusher cannot tell
}

// code is the status that was sent. A handler that writes nothing sends 200.
func (w *statusWriter) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}
