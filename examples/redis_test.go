package examples_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// Shared on Redis: all processes count together.
func Example_sharedOnRedis() {
	store, err := limitstore.Open(context.Background(), redis.Config{Address: "redis://localhost:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	http.ListenAndServe(":8080", httplimit.PerIP("100/minute", httplimit.On(store, "site"))(http.DefaultServeMux))
}

// The example needs a server, so this does the same with one of its own.
func TestSharedOnRedis(t *testing.T) {
	address := redistest.Start(t).URL()
	var got []int
	for range 3 { // three processes
		store, err := limitstore.Open(t.Context(), redis.Config{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		h := httplimit.PerIP("2/hour", httplimit.On(store, "site"))(http.NotFoundHandler())
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		got = append(got, w.Code)
	}
	if fmt.Sprint(got) != "[404 404 429]" {
		t.Errorf("the answers are %v", got)
	}
}
