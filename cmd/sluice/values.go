package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
)

// costs is a flag: an amount for every limit, or tokens by limit.
type costs struct {
	all  sluice.Amount
	each map[string]sluice.Amount
}

func (c *costs) String() string { return "" }
func (c *costs) Type() string   { return "cost" }

func (c *costs) Set(s string) error {
	for _, part := range strings.Split(s, ",") {
		name, amount, named := strings.Cut(part, "=")
		if !named {
			name, amount = "", part
		}
		var tokens sluice.Amount
		if err := tokens.UnmarshalJSON([]byte(strings.TrimSpace(amount))); err != nil {
			return fmt.Errorf("want an amount such as 3, or rpm=1,tpm=1200")
		}
		if tokens.IsZero() {
			return fmt.Errorf("want an amount other than 0; without one it is 1")
		}
		if !named {
			c.all = tokens
			continue
		}
		if c.each == nil {
			c.each = map[string]sluice.Amount{}
		}
		c.each[strings.TrimSpace(name)] = tokens
	}
	if !c.all.IsZero() && c.each != nil {
		return fmt.Errorf("want one amount, or tokens by limit, not both")
	}
	return nil
}

// list is the costs of limits in order of their names.
func (c *costs) list() []sluice.LimitCost {
	var all []sluice.LimitCost
	for _, name := range slices.Sorted(maps.Keys(c.each)) {
		all = append(all, sluice.LimitCost{Limit: name, Cost: c.each[name]})
	}
	return all
}

// rules is a flag: limits by name.
type rules map[string]sluice.Limit

func (r *rules) String() string { return "" }
func (r *rules) Type() string   { return "name=rule" }

func (r *rules) Set(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want a name and a limit, such as rpm=100/minute")
	}
	limit, err := sluice.Parse(text)
	if err != nil {
		return err
	}
	if *r == nil {
		*r = rules{}
	}
	(*r)[name] = limit
	return nil
}

// pairs is a flag: names with values.
type pairs map[string]string

func (p *pairs) String() string { return "" }
func (p *pairs) Type() string   { return "name=value" }

func (p *pairs) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want a name and a value, such as country=de")
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[name] = value
	return nil
}

// names is a flag: a list, by commas or by repeating it.
type names []string

func (n *names) String() string { return "" }
func (n *names) Type() string   { return "names" }

func (n *names) Set(s string) error {
	for _, name := range strings.Split(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, name)
		}
	}
	return nil
}

// period is a flag: a duration, also in days and weeks.
type period time.Duration

func (p *period) String() string { return "" }
func (p *period) Type() string   { return "duration" }

func (p *period) Set(s string) error {
	d, err := parsePeriod(s)
	if err != nil {
		return err
	}
	*p = period(d)
	return nil
}

// parsePeriod reads 90s, 1h30m, 7d or 2w.
func parsePeriod(s string) (time.Duration, error) {
	unit := map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	if len(s) > 1 {
		if day, ok := unit[s[len(s)-1:]]; ok {
			if n, err := strconv.ParseUint(s[:len(s)-1], 10, 16); err == nil {
				return time.Duration(n) * day, nil
			}
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration such as 90s, 1h30m, 7d or 2w")
	}
	return d, nil
}

// instant is a flag: a time, or how long ago or ahead of now it is.
type instant struct {
	time.Time
	ahead bool // durations count from now on, not back
}

func (i *instant) String() string { return "" }
func (i *instant) Type() string   { return "time" }

func (i *instant) Set(s string) error {
	if d, err := parsePeriod(s); err == nil {
		if !i.ahead {
			d = -d
		}
		i.Time = time.Now().Add(d)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			i.Time = t
			return nil
		}
	}
	where := "ago"
	if i.ahead {
		where = "from now"
	}
	return fmt.Errorf("want a time such as 2026-01-31T12:00:00Z or 2026-01-31, in UTC, or a duration such as 24h or 7d %s", where)
}

// choice is a flag: one of a few values.
type choice struct {
	to *string
	of []string
}

// choose defines a flag with one of a few values.
func choose(f *pflag.FlagSet, to *string, name, value, usage string, of ...string) {
	*to = value
	f.Var(&choice{to, of}, name, usage)
}

func (c *choice) String() string { return *c.to }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return errors.New("want " + anyOf(c.of, false))
	}
	*c.to = s
	return nil
}

// address is a flag: where to listen.
type address struct {
	to       *string
	optional bool // "" is for nowhere
}

func (a address) String() string { return *a.to }
func (a address) Type() string   { return "address" }

func (a address) Set(s string) error {
	if _, _, err := net.SplitHostPort(s); err != nil && (s != "" || !a.optional) {
		return errors.New("want an address such as 127.0.0.1:8080")
	}
	*a.to = s
	return nil
}
