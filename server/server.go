package server

import (
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/target"
)

// Config configures a server.
type Config struct {
	// Limiter decides.
	Limiter *sluice.Limiter

	// Catalog knows entities, stored limits and keys. Without one there are
	// only Limits, and the endpoints about what is stored answer 501.
	Catalog *catalog.Catalog

	// Limits apply to takes that bring none, by name, where there is no
	// catalog. With one, [catalog.Config] has them.
	Limits map[string]sluice.Limit

	// Gate decides requests by a policy, for explaining what it would answer.
	// Nil answers 501 to that.
	Gate *httplimit.Gate

	// Activity remembers what was asked lately, for status. It has to observe
	// the limiter. Nil leaves it out.
	Activity *Activity

	// Slots schedules work, and Replays keeps the responses of idempotent
	// writes. Nil answers 501 to what is about them.
	Slots   *schedule.Scheduler
	Replays *idempotency.Keeper

	// Targets seals the secrets of targets, and is to run beside the server. Nil
	// refuses plans that have a target.
	Targets *target.Runner

	// StoreState returns the state of a shared store, for status: see package
	// failover. Nil leaves it out.
	StoreState func() string

	// Nodes lists the nodes that share the store. Nil lists none.
	Nodes func() client.NodeList

	// Sanctions are bans and emergency limits. Nil means that there are none.
	Sanctions Sanctions

	// Thresholds are the utilizations at which a limit raises an alarm.
	Thresholds catalog.Thresholds

	// Behind are other handlers, by pattern, for trusted back-ends.
	Behind map[string]http.Handler

	// Access controls who may do what.
	Access Access

	// Logins counts failed logins. Nil counts none.
	Logins *abuse.Logins

	// LookOnly leaves out every endpoint but status, buckets, nodes, me, explain and
	// those that find and settle replays. Nothing else can be changed.
	LookOnly bool

	// Log receives errors that callers are not told. The default is slog.Default().
	Log *slog.Logger
}

type server struct {
	thresholds catalog.Thresholds
	behind     map[string]http.Handler
	limiter    *sluice.Limiter
	catalog    *catalog.Catalog
	resolver   catalog.Resolver
	gate       *httplimit.Gate
	activity   *Activity
	storeState func() string
	listNodes  func() client.NodeList
	guard      Sanctions
	slots      *schedule.Scheduler
	targets    *target.Runner
	replays    *idempotency.Keeper
	door       *doorman
	logins     *abuse.Logins
	log        *slog.Logger
	charging   charging
}

// Handler returns a handler for the server's endpoints.
func Handler(config Config) (http.Handler, error) {
	if config.Limiter == nil {
		return nil, errors.New("server.limiter: must be set")
	}
	if (config.Catalog == nil) != (len(config.Limits) > 0) {
		return nil, &sluice.FieldError{Field: "server.limits", Value: len(config.Limits), Reason: "must be set where there is no catalog, and nowhere else"}
	}
	if len(config.Limits) > sluice.MaxDemands {
		return nil, &sluice.FieldError{Field: "server.limits", Value: len(config.Limits), Reason: "must be at most 64"}
	}
	s := &server{
		limiter: config.Limiter, catalog: config.Catalog, resolver: config.Catalog, gate: config.Gate,
		activity: config.Activity, slots: config.Slots, targets: config.Targets, replays: config.Replays, log: config.Log,
		storeState: config.StoreState, listNodes: config.Nodes, guard: config.Sanctions, thresholds: config.Thresholds, behind: config.Behind, logins: config.Logins,
		charging: newCharging(),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if config.Catalog == nil {
		limits := catalog.Limits{}
		for name, limit := range config.Limits {
			if err := limit.Validate(); err != nil {
				return nil, err
			}
			limits[name] = catalog.Setting{Limit: limit}
		}
		s.resolver = &catalog.Declared{Default: limits}
	}
	var err error
	if s.door, err = newDoorman(config.Access); err != nil {
		return nil, err
	}
	if config.LookOnly {
		return s.mux(lookRoutes, recordedRoutes), nil
	}
	return s.mux(routes...), nil
}

func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, "ok\n") //nolint:errcheck // the client is gone
}

func only(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methods)
		problem{Status: http.StatusMethodNotAllowed, Code: "method", Detail: r.URL.Path + " allows " + methods}.write(w)
	}
}
