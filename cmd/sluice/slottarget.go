package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
)

// targetFlags change the target of a plan.
type targetFlags struct {
	url, method, secret, repeat, rate string
	headers                           []string
	success                           names
	keep, timeout, backoff, most      period
	attempts, concurrency             int
}

func (f *targetFlags) define(to *pflag.FlagSet) {
	to.StringVar(&f.url, "target", "", "`URL` that servers call for each event when its slot is due; '' for none")
	to.StringVar(&f.method, "target-method", "", "`method` of the call: POST, PUT, PATCH or DELETE (default POST)")
	to.StringArrayVar(&f.headers, "target-header", nil, "`header` to send, as 'Name: value' or 'Name: @file'; 'Name:' removes it; may be repeated")
	to.StringVar(&f.secret, "target-secret", "", "`secret` that signs calls as Standard Webhooks says; @file reads it from a file; '' for none")
	f.keep = period(24 * time.Hour)
	to.Var(&f.keep, "target-keep-secret", "`duration` for which the secret that is replaced signs, too (default 24h)")
	to.Var(&f.success, "target-success", "`statuses` that mean that the event is done (default 200 to 299)")
	to.StringVar(&f.repeat, "target-repeat", "", "safe: the target honours the Idempotency-Key, so a call that may have been executed is repeated, as `safe` says; '' leaves it unknown")
	to.StringVar(&f.rate, "target-rate", "", "`rate` at which all servers together start calls (default 50/s)")
	to.Var(&f.timeout, "target-timeout", "`duration` after which a call is given up (default 10s)")
	to.IntVar(&f.attempts, "target-attempts", 0, "`number` of attempts at a call that was not executed, or may be repeated (default 5)")
	to.Var(&f.backoff, "target-backoff", "`duration` of the pause before the second attempt, which doubles from then on (default 1s)")
	to.Var(&f.most, "target-max-backoff", "`duration` of the longest pause (default 5m)")
	to.IntVar(&f.concurrency, "target-concurrency", 0, "`number` of calls that one server makes at once (default 64)")
}

// apply changes p as the flags say; what they leave out is kept.
func (f *targetFlags) apply(c *call, p *schedule.Plan, now time.Time) error {
	given := slices.ContainsFunc([]string{
		"method", "header", "secret", "success", "repeat", "rate", "timeout", "attempts", "backoff", "max-backoff", "concurrency",
	}, func(name string) bool { return c.said("target-" + name) })
	switch {
	case c.said("target") && f.url == "":
		if p.Target = nil; given {
			return c.wrong("--target '' removes the target, and the other flags change it")
		}
		return nil
	case !c.said("target") && !given:
		return nil
	case p.Target == nil:
		p.Target = &schedule.Target{}
	}
	t := p.Target
	if c.said("target") {
		t.URL = f.url
	}
	if c.said("target-method") {
		t.Method = f.method
	}
	if c.said("target-repeat") {
		t.Repeat = f.repeat
	}
	if c.said("target-rate") {
		rate, err := sluice.Parse(f.rate)
		if err != nil {
			return err
		}
		t.Rate = rate
	}
	if c.said("target-success") {
		t.Success = nil
		for _, text := range f.success {
			status, err := strconv.Atoi(text)
			if err != nil {
				return c.wrong("--target-success: want statuses such as 200,202")
			}
			t.Success = append(t.Success, status)
		}
	}
	for _, d := range []struct {
		name string
		from period
		to   *schedule.Duration
	}{{"timeout", f.timeout, &t.Timeout}, {"backoff", f.backoff, &t.Backoff}, {"max-backoff", f.most, &t.MaxBackoff}} {
		if c.said("target-" + d.name) {
			*d.to = schedule.Duration(d.from)
		}
	}
	if c.said("target-attempts") {
		t.Attempts = f.attempts
	}
	if c.said("target-concurrency") {
		t.Concurrency = f.concurrency
	}
	if c.said("target-secret") {
		if err := f.replaceSecret(t, now); err != nil {
			return err
		}
	}
	return f.setHeaders(c, t)
}

// replaceSecret makes a secret sign, and the ones before for a while longer.
func (f *targetFlags) replaceSecret(t *schedule.Target, now time.Time) error {
	old, until := t.Secrets, now.Add(time.Duration(f.keep)).UTC()
	if t.Secrets = nil; f.secret == "" {
		return nil
	}
	s, err := secret(f.secret)
	if err != nil {
		return err
	}
	t.Secrets = []schedule.TargetSecret{{Secret: s}}
	for _, o := range old {
		if o.Until.IsZero() || o.Until.After(until) {
			o.Until = until
		}
		if o.Until.After(now) {
			t.Secrets = append(t.Secrets, o)
		}
	}
	return nil
}

func (f *targetFlags) setHeaders(c *call, t *schedule.Target) error {
	for _, header := range f.headers {
		name, value, ok := strings.Cut(header, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || name == "" {
			return c.wrong("--target-header: want 'Name: value'")
		}
		for old := range t.Headers {
			if http.CanonicalHeaderKey(old) == http.CanonicalHeaderKey(name) {
				delete(t.Headers, old)
			}
		}
		if value == "" {
			continue
		}
		value, err := secret(value)
		if err != nil {
			return err
		}
		if t.Headers == nil {
			t.Headers = map[string]string{}
		}
		t.Headers[name] = value
	}
	return nil
}

// targetFields show a target.
func targetFields(t *schedule.Target) fields {
	f := fields{
		{"target", t.Method + " " + t.URL}, {"rate", t.Rate.String()}, {"time-out", t.Timeout.String()},
		{"attempts", fmt.Sprintf("%d, %s to %s apart", t.Attempts, t.Backoff, t.MaxBackoff)}, {"at once", number(t.Concurrency)},
	}
	if t.Repeat != "" {
		f = append(f, [2]string{"repeat", t.Repeat})
	}
	if len(t.Success) > 0 {
		f = append(f, [2]string{"success", strings.Trim(fmt.Sprint(t.Success), "[]")})
	}
	for name := range t.Headers {
		f = append(f, [2]string{"header", name + ": (sealed)"})
	}
	for _, s := range t.Secrets {
		until := ""
		if !s.Until.IsZero() {
			until = " until " + moment(s.Until)
		}
		f = append(f, [2]string{"secret", "(sealed)" + until})
	}
	return f
}
