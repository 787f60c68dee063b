package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// silent is a response that nobody reads.
type silent struct {
	header http.Header
	status int
}

func (s *silent) Header() http.Header         { return s.header }
func (s *silent) Write(b []byte) (int, error) { return len(b), nil }
func (s *silent) WriteHeader(status int)      { s.status = status }

// BenchmarkTake is a take without the network: memory store, limits from the
// catalog. What net/http itself allocates for a request is not in it.
func BenchmarkTake(b *testing.B) {
	handler := benchHandler(b)
	for _, c := range []struct{ name, body string }{
		{"plain", `{"entity":"alice","resource":"api","cost":1}`},
		{"costs", `{"entity":"alice","resource":"api","cost":{"rpm":1,"tpm":500}}`},
		{"own limits", `{"entity":"alice","resource":"api","limits":{"rpm":"1000000000/minute"}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.NewReader(c.body)
			request := httptest.NewRequest("POST", "http://127.0.0.1/v1/take", nil)
			w := &silent{header: http.Header{}}
			for b.Loop() {
				body.Reset(c.body)
				request.Body = io.NopCloser(body)
				clear(w.header)
				handler.ServeHTTP(w, request)
				if w.status != 200 {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// benchHandler limits everybody by two limits that nobody reaches.
func benchHandler(b *testing.B) http.Handler {
	b.Helper()
	db := must(sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "sluice.db")))(b)
	closes(b, db)
	cat := must(catalog.Open(b.Context(), catalog.Config{Store: catalogstore.New(db)}))(b)
	closes(b, cat)
	must(cat.Edit(catalog.DefaultNamespace, catalog.By{Actor: "bench"}).SetLimits(b.Context(), catalog.Scope{},
		limits("rpm", "1000000000/minute", "tpm", "1000000000/minute"), 0))(b)
	store := must(memory.Open(memory.Config{}))(b)
	closes(b, store)
	return must(server.Handler(server.Config{
		Limiter: sluice.New(store), Catalog: cat, Access: server.Access{Open: true}, Log: slog.New(slog.DiscardHandler),
	}))(b)
}
