package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/idempotency"
)

func replaysCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "replays", Short: "manage stored responses of idempotent writes",
		Long: `A response is found by namespace, method, route and idempotency key, and by the
entity that sent the request through a gateway. There the route is the name that the
policy gives it. Who has an API key or token without a role finds their own.`,
		Example: `sluice replays stats
sluice replays lookup POST orders KEY --entity user:42`,
	}, replayStatsCommand(), replayRecentCommand(), replayLookupCommand(), replayForgetCommand(), replaySettleCommand(),
		replayClaimCommand(), replayExtendCommand(), replayCompleteCommand(), replayReleaseCommand())
}

const replayArgs = "METHOD ROUTE KEY"

// whose says whose records a command is about.
type whose struct{ entity string }

func (w *whose) define(f *pflag.FlagSet) {
	f.StringVar(&w.entity, "entity", "", "`name` of whoever sent the requests through a gateway, such as user:42 or ip:203.0.113.7")
}

// tenant is the entity's; the server knows the namespace.
func (w *whose) tenant() string {
	if w.entity == "" {
		return ""
	}
	return idempotency.Tenant("", w.entity)
}

// scope is what the arguments of a command about one key name.
func (w *whose) scope(c *call) idempotency.Scope {
	return idempotency.Scope{Tenant: w.tenant(), Method: strings.ToUpper(c.arg(0)), Route: c.arg(1), Key: c.arg(2)}
}

func replayStatsCommand() *cobra.Command {
	var w whose
	var everyone bool
	return online(&cobra.Command{
		Use: "stats", Short: "show counters of first runs, replays and conflicts",
		Example: `sluice replays stats
sluice replays stats --everyone --json`,
	}, func(f *pflag.FlagSet) {
		w.define(f)
		f.BoolVar(&everyone, "everyone", false, "all namespaces together")
	}, func(ctx context.Context, c *call) error {
		s, err := c.client.ReplayStats(ctx, idempotency.Query{Tenant: w.tenant(), Everyone: everyone})
		return c.printAnswer(err, fields{
			{"first runs", number(s.FirstRuns)}, {"replays", number(s.Replays)}, {"conflicts", number(s.Conflicts)},
			{"mismatches", number(s.Mismatches)}, {"takeovers", number(s.Takeovers)}, {"outcome unknown", number(s.Unknown)},
			{"response not kept", number(s.NotKept)}, {"released", number(s.Released)}, {"claims lost", number(s.Lost)},
			{"store away", number(s.Unavailable)}, {"sent", number(s.Sent)}, {"tries", number(s.Tries)},
			{"bytes stored", number(s.BytesStored)}, {"bytes replayed", number(s.BytesReplayed)},
		}.String())
	})
}

func replayRecentCommand() *cobra.Command {
	var w whose
	var everyone bool
	var most int
	return online(&cobra.Command{
		Use: "recent", Short: "list the latest replays",
		Example: "sluice replays recent --max 20",
	}, func(f *pflag.FlagSet) {
		w.define(f)
		f.BoolVar(&everyone, "everyone", false, "all namespaces")
		f.IntVar(&most, "max", 100, "show at most this `number`, up to 1000")
	}, func(ctx context.Context, c *call) error {
		all, err := c.client.RecentReplays(ctx, idempotency.Query{Tenant: w.tenant(), Everyone: everyone, Max: most})
		return printList(c, err, "replays", all, false, newTable("TENANT", "METHOD", "ROUTE", "KEY", "STATE", ">REPLAYS", "REPLAYED", "EXPIRES"), func(r *idempotency.Record) []string {
			return []string{r.Scope.Tenant, r.Scope.Method, r.Scope.Route, r.Scope.Key, r.State.String(), number(r.Replays), moment(r.Replayed), moment(r.Expires)}
		})
	})
}

// recordFields are a stored response for people.
func recordFields(r *idempotency.Record, response *idempotency.Response) fields {
	state := r.State.String()
	if r.Crashed {
		state += ", but not heard of: crashed"
	}
	f := fields{
		{"key", r.Scope.Key}, {"of", r.Scope.Method + " " + r.Scope.Route}, {"tenant", r.Scope.Tenant}, {"state", state},
		{"attempts", number(r.Attempts)}, {"started", moment(r.Started)}, {"finished", moment(r.Finished)},
		{"expires", moment(r.Expires)}, {"replays", number(r.Replays)}, {"replayed", moment(r.Replayed)},
	}
	if response != nil {
		f = append(f, [2]string{"response", fmt.Sprintf("%d %s, %d bytes", response.Status, http.StatusText(response.Status), len(response.Body))},
			[2]string{"lost", string(response.Lost)})
	}
	return f
}

func replayLookupCommand() *cobra.Command {
	var w whose
	return online(&cobra.Command{
		Use: "lookup " + replayArgs, Short: "show what is stored for a key; --json includes the response",
		Example: "sluice replays lookup POST /orders 7d3e",
	}, w.define, func(ctx context.Context, c *call) error {
		record, response, err := c.client.LookupReplay(ctx, w.scope(c))
		return c.printAnswer(err, recordFields(&record, response).String())
	})
}

func replayForgetCommand() *cobra.Command {
	var w whose
	return online(&cobra.Command{
		Use: "forget " + replayArgs, Short: "delete what is stored for a key, so that the next request runs",
		Example: "sluice replays forget POST /orders 7d3e",
	}, w.define, func(ctx context.Context, c *call) error {
		return c.done(c.client.ForgetReplay(ctx, w.scope(c)), "forgotten")
	})
}

// responseFlags are a response.
type responseFlags struct {
	status int
	header pairs
	body   string
}

func (r *responseFlags) define(f *pflag.FlagSet) {
	f.IntVar(&r.status, "status", 0, "status `code` of the response")
	f.Var(&r.header, "header", "a header as `name=value`; may be repeated")
	f.StringVar(&r.body, "body", "", "`file` with the response's body; - is standard input")
}

const maxReplay = 4 << 20

func (r *responseFlags) response(c *call) (idempotency.Response, error) {
	response := idempotency.Response{Status: r.status}
	if r.status < 200 || r.status > 599 {
		return response, c.wrong("--status %d: want 200 to 599", r.status)
	}
	for name, value := range r.header {
		if response.Header == nil {
			response.Header = http.Header{}
		}
		response.Header.Add(name, value)
	}
	if r.body == "" {
		return response, nil
	}
	file, err := c.input(r.body)
	if err != nil {
		return response, err
	}
	defer file.Close()
	response.Body, err = io.ReadAll(io.LimitReader(file, maxReplay))
	return response, err
}

func replaySettleCommand() *cobra.Command {
	var w whose
	var r responseFlags
	var never bool
	return online(&cobra.Command{
		Use: "settle " + replayArgs, Short: "record the outcome of a run that crashed",
		Long: `With --status the write was done, and repeats get that response; with
--never-ran the next request runs.`,
		Example: `sluice replays settle POST /orders 7d3e --never-ran
sluice replays settle POST /orders 7d3e --status 201 --body answer.json`,
	}, func(f *pflag.FlagSet) {
		w.define(f)
		r.define(f)
		f.BoolVar(&never, "never-ran", false, "it was not done")
	}, func(ctx context.Context, c *call) error {
		if never == c.said("status") {
			return c.wrong("want --status or --never-ran")
		}
		var response *idempotency.Response
		if !never {
			made, err := r.response(c)
			if err != nil {
				return err
			}
			response = &made
		}
		return c.done(c.client.SettleReplay(ctx, w.scope(c), response), "settled")
	})
}

// claimFlag is what claim answers and the others need.
type claimFlag struct {
	whose
	text string
}

func (k *claimFlag) define(f *pflag.FlagSet) {
	k.whose.define(f)
	f.StringVar(&k.text, "claim", "", "`token` that claim printed")
}

func (k *claimFlag) token(c *call) (t idempotency.Token, err error) {
	if t.UnmarshalText([]byte(k.text)) != nil || k.text == "" {
		err = c.wrong("--claim %q: want the token that claim printed", k.text)
	}
	return t, err
}

func replayClaimCommand() *cobra.Command {
	var claim idempotency.Claim
	var life, ttl period
	var body string
	var token claimFlag
	return online(&cobra.Command{
		Use: "claim " + replayArgs, Short: "claim a key before doing the work",
		Long: `The exit code is 0 if the work is to be done now, and 1 if it is running
elsewhere or was done. In that case --json prints the stored response.`,
		Example: "sluice replays claim POST /orders 7d3e --body order.json",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&body, "body", "", "`file` with the request's body; the same key with another body is refused")
		f.Var(&life, "life", "`duration` after which a silent run counts as crashed (default 30s)")
		f.Var(&ttl, "ttl", "`duration` for which the response is kept (default 24h)")
		f.BoolVar(&claim.TakeOver, "take-over", false, "run even if an earlier run crashed")
		token.define(f)
	}, func(ctx context.Context, c *call) error {
		if c.said("claim") {
			var err error
			if claim.Token, err = token.token(c); err != nil {
				return err
			}
		}
		claim.Scope, claim.Life, claim.TTL = token.scope(c), time.Duration(life), time.Duration(ttl)
		if body != "" {
			text, err := os.ReadFile(body)
			if err != nil {
				return err
			}
			claim.Fingerprint = sha256.Sum256(text)
		}
		answer, err := c.client.ClaimReplay(ctx, claim)
		if err != nil {
			return err
		}
		f := fields{{"verdict", answer.Verdict.String()}}
		if answer.Verdict.Held() {
			return c.printAnswer(nil, append(f, [2]string{"claim", answer.Token.String()}).String())
		}
		return cmp.Or(c.printAnswer(nil, append(f, recordFields(&answer.Record, answer.Response)...).String()), errRefused)
	})
}

func replayExtendCommand() *cobra.Command {
	var token claimFlag
	life := period(30 * time.Second)
	return online(&cobra.Command{
		Use: "extend " + replayArgs, Short: "extend a claim while the work lasts",
		Example: "sluice replays extend POST /orders 7d3e --claim TOKEN --life 1m",
	}, func(f *pflag.FlagSet) {
		token.define(f)
		f.Var(&life, "life", "`duration` from now (default 30s)")
	}, func(ctx context.Context, c *call) error {
		t, err := token.token(c)
		if err != nil {
			return err
		}
		return c.done(c.client.ExtendReplay(ctx, token.scope(c), t, time.Duration(life)), "extended")
	})
}

func replayCompleteCommand() *cobra.Command {
	var token claimFlag
	var r responseFlags
	var ttl period
	return online(&cobra.Command{
		Use: "complete " + replayArgs, Short: "end a claim and store the response for repeats",
		Example: "sluice replays complete POST /orders 7d3e --claim TOKEN --status 201 --body answer.json",
	}, func(f *pflag.FlagSet) {
		token.define(f)
		r.define(f)
		f.Var(&ttl, "ttl", "`duration` for which the response is kept (default 24h)")
	}, func(ctx context.Context, c *call) error {
		t, err := token.token(c)
		if err != nil {
			return err
		}
		response, err := r.response(c)
		if err != nil {
			return err
		}
		return c.done(c.client.CompleteReplay(ctx, token.scope(c), t, response, time.Duration(ttl)), "completed")
	})
}

func replayReleaseCommand() *cobra.Command {
	var token claimFlag
	return online(&cobra.Command{
		Use: "release " + replayArgs, Short: "end a claim as if it had never been made",
		Example: "sluice replays release POST /orders 7d3e --claim TOKEN",
	}, token.define, func(ctx context.Context, c *call) error {
		t, err := token.token(c)
		if err != nil {
			return err
		}
		return c.done(c.client.ReleaseReplay(ctx, token.scope(c), t), "released")
	})
}
