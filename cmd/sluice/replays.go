package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

func replaysCommand() *command {
	return &command{
		name: "replays", summary: "stored responses of idempotent writes",
		about: `A key is used by
the namespace for a method on a route.`,
		sub: []*command{
			replayStatsCommand(), replayRecentCommand(), replayLookupCommand(), replayForgetCommand(), replaySettleCommand(),
			replayClaimCommand(), replayExtendCommand(), replayCompleteCommand(), replayReleaseCommand(),
		},
		examples: []string{"sluice replays stats", "sluice replays lookup POST /orders KEY"},
	}
}

const replayArgs = "METHOD ROUTE KEY"

// scope is what the arguments of a command about one key name.
func (c *call) scope() idempotency.Scope {
	return idempotency.Scope{Method: strings.ToUpper(c.arg(0)), Route: c.arg(1), Key: c.arg(2)}
}

func replayStatsCommand() *command {
	var everyone bool
	return &command{
		name: "stats", summary: "show how often responses were replayed, and the rest",
		flags:    func(f *flag.FlagSet) { f.BoolVar(&everyone, "everyone", false, "of all namespaces together") },
		examples: []string{"sluice replays stats", "sluice replays stats --everyone --json"},
		run: func(ctx context.Context, c *call) error {
			s, err := c.client.ReplayStats(ctx, everyone)
			if err != nil {
				return c.trouble(err)
			}
			return c.printAnswer(func(w io.Writer) error {
				return fields{
					{"first runs", number(s.FirstRuns)}, {"replays", number(s.Replays)}, {"conflicts", number(s.Conflicts)},
					{"mismatches", number(s.Mismatches)}, {"takeovers", number(s.Takeovers)}, {"outcome unknown", number(s.Unknown)},
					{"response not kept", number(s.NotKept)}, {"released", number(s.Released)}, {"claims lost", number(s.Lost)},
					{"store away", number(s.Unavailable)}, {"sent", number(s.Sent)}, {"tries", number(s.Tries)},
					{"bytes stored", number(s.BytesStored)}, {"bytes replayed", number(s.BytesReplayed)},
				}.writeTo(w)
			})
		},
	}
}

func replayRecentCommand() *command {
	var everyone bool
	var most int
	return &command{
		name: "recent", summary: "list what was replayed last",
		flags: func(f *flag.FlagSet) {
			f.BoolVar(&everyone, "everyone", false, "of all namespaces")
			f.IntVar(&most, "max", 100, "number | show at most this many, up to 1000")
		},
		examples: []string{"sluice replays recent --max 20"},
		run: func(ctx context.Context, c *call) error {
			all, err := c.client.RecentReplays(ctx, everyone, most)
			if err != nil {
				return c.trouble(err)
			}
			return printList(c, "replays", all, false, newTable("TENANT", "METHOD", "ROUTE", "KEY", "STATE", ">REPLAYS", "REPLAYED", "EXPIRES"), func(r *idempotency.Record) []string {
				return []string{r.Scope.Tenant, r.Scope.Method, r.Scope.Route, r.Scope.Key, r.State.String(), number(r.Replays), moment(r.Replayed), moment(r.Expires)}
			})
		},
	}
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

func replayLookupCommand() *command {
	return &command{
		name: "lookup", args: replayArgs, summary: "show what is stored for a key; --json has the response",
		examples: []string{"sluice replays lookup POST /orders 7d3e"},
		run: func(ctx context.Context, c *call) error {
			record, response, err := c.client.LookupReplay(ctx, c.scope())
			if err != nil {
				return c.trouble(err)
			}
			return c.printAnswer(recordFields(&record, response).writeTo)
		},
	}
}

func replayForgetCommand() *command {
	return &command{
		name: "forget", args: replayArgs, summary: "delete what is stored for a key, so that the next request runs",
		examples: []string{"sluice replays forget POST /orders 7d3e"},
		run: func(ctx context.Context, c *call) error {
			if err := c.client.ForgetReplay(ctx, c.scope()); err != nil {
				return c.trouble(err)
			}
			return c.done("forgotten")
		},
	}
}

// responseFlags are a response.
type responseFlags struct {
	status int
	header pairs
	body   string
}

func (r *responseFlags) define(f *flag.FlagSet) {
	f.IntVar(&r.status, "status", 0, "number | the response's status code")
	f.Var(&r.header, "header", "name=value | a header as name=value; may be repeated")
	f.StringVar(&r.body, "body", "", "file | its body, from a file; - is the standard input")
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

func replaySettleCommand() *command {
	var r responseFlags
	var never bool
	return &command{
		name: "settle", args: replayArgs, summary: "say what became of a run that crashed",
		about: `With --status
it was done, and repeats get that response; with --never-ran the next one runs.`,
		flags: func(f *flag.FlagSet) {
			r.define(f)
			f.BoolVar(&never, "never-ran", false, "it was not done")
		},
		examples: []string{"sluice replays settle POST /orders 7d3e --never-ran", "sluice replays settle POST /orders 7d3e --status 201 --body answer.json"},
		run: func(ctx context.Context, c *call) error {
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
			if err := c.client.SettleReplay(ctx, c.scope(), response); err != nil {
				return c.trouble(err)
			}
			return c.done("settled")
		},
	}
}

// claimFlag is what claim answers and the others need.
type claimFlag struct{ text string }

func (k *claimFlag) define(f *flag.FlagSet) {
	f.StringVar(&k.text, "claim", "", "token | the claim's token, as claim answered it")
}

func (k *claimFlag) token(c *call) (t idempotency.Token, err error) {
	if t.UnmarshalText([]byte(k.text)) != nil || k.text == "" {
		err = c.wrong("--claim %q: want the token that claim answered", k.text)
	}
	return t, err
}

func replayClaimCommand() *command {
	var claim idempotency.Claim
	var life, ttl period
	var body string
	var token claimFlag
	return &command{
		name: "claim", args: replayArgs, summary: "ask for a key before the work: may it run?",
		about: `It exits with
0 if the work is to be done now, and with 1 if it is running elsewhere or was done,
in which case the stored response is printed with --json.`,
		flags: func(f *flag.FlagSet) {
			f.StringVar(&body, "body", "", "file | the request's body, from a file: the same key with another is refused")
			f.Var(&life, "life", "duration | how long it counts as running if not heard of (default 30s)")
			f.Var(&ttl, "ttl", "duration | how long its response is kept (default 24h)")
			f.BoolVar(&claim.TakeOver, "take-over", false, "run also if an earlier run crashed")
			token.define(f)
		},
		examples: []string{"sluice replays claim POST /orders 7d3e --body order.json"},
		run: func(ctx context.Context, c *call) error {
			if c.said("claim") {
				var err error
				if claim.Token, err = token.token(c); err != nil {
					return err
				}
			}
			claim.Scope, claim.Life, claim.TTL = c.scope(), time.Duration(life), time.Duration(ttl)
			if body != "" {
				text, err := os.ReadFile(body)
				if err != nil {
					return err
				}
				claim.Fingerprint = sha256.Sum256(text)
			}
			answer, err := c.client.ClaimReplay(ctx, claim)
			if err != nil {
				return c.trouble(err)
			}
			if err := c.printAnswer(func(w io.Writer) error {
				f := fields{{"verdict", answer.Verdict.String()}}
				if answer.Verdict.Held() {
					f = append(f, [2]string{"claim", answer.Token.String()})
				} else {
					f = append(f, recordFields(&answer.Record, answer.Response)...)
				}
				return f.writeTo(w)
			}); err != nil {
				return err
			}
			if !answer.Verdict.Held() {
				return errRefused
			}
			return nil
		},
	}
}

func replayExtendCommand() *command {
	var token claimFlag
	life := period(30 * time.Second)
	return &command{
		name: "extend", args: replayArgs, summary: "keep a claim while the work lasts",
		flags: func(f *flag.FlagSet) {
			token.define(f)
			f.Var(&life, "life", "duration | how long from now on (default 30s)")
		},
		examples: []string{"sluice replays extend POST /orders 7d3e --claim TOKEN --life 1m"},
		run: func(ctx context.Context, c *call) error {
			t, err := token.token(c)
			if err != nil {
				return err
			}
			if err := c.client.ExtendReplay(ctx, c.scope(), t, time.Duration(life)); err != nil {
				return c.trouble(err)
			}
			return c.done("extended")
		},
	}
}

func replayCompleteCommand() *command {
	var token claimFlag
	var r responseFlags
	var ttl period
	return &command{
		name: "complete", args: replayArgs, summary: "end a claim with the response that repeats get",
		flags: func(f *flag.FlagSet) {
			token.define(f)
			r.define(f)
			f.Var(&ttl, "ttl", "duration | how long it is kept (default 24h)")
		},
		examples: []string{"sluice replays complete POST /orders 7d3e --claim TOKEN --status 201 --body answer.json"},
		run: func(ctx context.Context, c *call) error {
			t, err := token.token(c)
			if err != nil {
				return err
			}
			response, err := r.response(c)
			if err != nil {
				return err
			}
			if err := c.client.CompleteReplay(ctx, c.scope(), t, response, time.Duration(ttl)); err != nil {
				return c.trouble(err)
			}
			return c.done("completed")
		},
	}
}

func replayReleaseCommand() *command {
	var token claimFlag
	return &command{
		name: "release", args: replayArgs, summary: "end a claim as if it had never been",
		flags: token.define, examples: []string{"sluice replays release POST /orders 7d3e --claim TOKEN"},
		run: func(ctx context.Context, c *call) error {
			t, err := token.token(c)
			if err != nil {
				return err
			}
			if err := c.client.ReleaseReplay(ctx, c.scope(), t); err != nil {
				return c.trouble(err)
			}
			return c.done("released")
		},
	}
}
