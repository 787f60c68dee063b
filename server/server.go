package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// Config is what a server needs to know.
type Config struct {
	// Limiter decides.
	Limiter *sluice.Limiter

	// Limits apply to takes that bring none, by name.
	Limits map[string]sluice.Limit

	// Log gets what goes wrong inside. The default is slog.Default().
	Log *slog.Logger
}

type server struct {
	limiter *sluice.Limiter
	limits  []namedLimit
	log     *slog.Logger
}

// Handler answers the server's endpoints.
func Handler(config Config) (http.Handler, error) {
	if config.Limiter == nil {
		return nil, errors.New("server.limiter: must be set")
	}
	if len(config.Limits) == 0 || len(config.Limits) > sluice.MaxDemands {
		return nil, &sluice.FieldError{Field: "server.limits", Value: len(config.Limits), Reason: "must be 1 to 64"}
	}
	s := &server{limiter: config.Limiter, log: config.Log}
	if s.log == nil {
		s.log = slog.Default()
	}
	for _, name := range slices.Sorted(maps.Keys(config.Limits)) {
		limit := config.Limits[name]
		if err := limit.Validate(); err != nil {
			return nil, err
		}
		s.limits = append(s.limits, namedLimit{name, limit, sluice.LevelDefault})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("POST /v1/take", s.take)
	mux.HandleFunc("/healthz", only("GET, HEAD"))
	mux.HandleFunc("/v1/take", only("POST"))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem{Status: http.StatusNotFound, Detail: "this server has /healthz and /v1/take"}.write(w)
	})
	return mux, nil
}

func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, "ok\n") //nolint:errcheck // the client is gone
}

func only(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methods)
		problem{Status: http.StatusMethodNotAllowed, Detail: r.URL.Path + " wants " + methods}.write(w)
	}
}

// drain is how long requests under way may take to finish at shutdown.
const drain = 10 * time.Second

// Serve answers on l until ctx is done, and then finishes the requests it has
// begun before it returns. log gets what the connections complain of.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	hs := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxBody,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1)
	unregister := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		stopped <- hs.Shutdown(limited)
	})
	if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		unregister()
		return err
	}
	if err := <-stopped; err != nil {
		hs.Close() //nolint:errcheck // it is over either way
		return errors.New("requests were still under way after " + drain.String())
	}
	return nil
}
