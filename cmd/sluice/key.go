package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func keyCommand() *command {
	return &command{
		name: "key", summary: "API keys: make, look at, rotate, revoke",
		about: `A key is shown
once, when it is made; only a hash of it is stored. The scopes sluice:read,
sluice:take and sluice:admin let it use this server.`,
		sub: []*command{
			keyCreateCommand(), keyListCommand(), keyGetCommand(), keyUpdateCommand(),
			keyRevokeCommand(), keyRotateCommand(), keyDeleteCommand(),
		},
		examples: []string{"sluice key create alice --scope sluice:take --expires 90d", "sluice key rotate ID --grace 48h"},
	}
}

// keyFlags are what can be said about a key.
type keyFlags struct {
	name, tier string
	scopes     names
	expires    instant
}

func (k *keyFlags) define(f *flag.FlagSet) {
	k.expires.ahead = true
	f.StringVar(&k.name, "name", "", "name | its name for people")
	f.StringVar(&k.tier, "tier", "", "tier | its tier, if its entity has none")
	f.Var(&k.scopes, "scope", "scope | what it may do; may be repeated")
	f.Var(&k.expires, "expires", "time | when: a time, or 90d from now (default never)")
}

// keyFields are a key for people; the secret only if it was just made.
func keyFields(k *catalog.Key) fields {
	return fields{
		{"key", k.ID}, {"entity", k.Entity}, {"name", k.Name}, {"tier", k.Tier}, {"scopes", strings.Join(k.Scopes, ", ")},
		{"created", moment(k.Created)}, {"expires", moment(k.Expires)}, {"revoked", moment(k.Revoked)},
		{"last used", moment(k.LastUsed)}, {"replaces", k.Replaces}, {"version", number(k.Version)},
	}
}

func (c *call) key(k *catalog.Key, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(keyFields(k).writeTo)
}

func (c *call) newKey(k *client.NewKey, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		if err := keyFields(&k.Key).writeTo(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "\n%s\n\nKeep it: it is not shown again.\n", k.Secret)
		return err
	})
}

func keyCreateCommand() *command {
	var k keyFlags
	var reason reasonFlag
	return &command{
		name: "create", args: "ENTITY", summary: "make an API key for an entity",
		flags:    func(f *flag.FlagSet) { k.define(f); reason.define(f) },
		examples: []string{"sluice key create alice --name laptop --scope sluice:take --expires 90d"},
		run: func(ctx context.Context, c *call) error {
			made, err := reason.client(c).CreateKey(ctx, catalog.Key{
				Entity: c.arg(0), Name: k.name, Tier: k.tier, Scopes: k.scopes, Expires: k.expires.Time,
			})
			return c.newKey(&made, err)
		},
	}
}

func keyListCommand() *command {
	var entity string
	var most length
	return &command{
		name: "list", summary: "list API keys",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&entity, "entity", "", "entity | only of this entity")
			most.define(f)
		},
		examples: []string{"sluice key list --entity alice"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]catalog.Key, string, error) {
				page, err := c.client.Keys(ctx, entity, p)
				return page.Keys, page.Next, err
			})
			if err != nil {
				return err
			}
			now := time.Now()
			return printList(c, "keys", all, more, newTable("KEY", "ENTITY", "NAME", "TIER", "SCOPES", "STATE", "EXPIRES", "LAST USED"), func(k *catalog.Key) []string {
				state := "valid"
				switch {
				case !k.Revoked.IsZero():
					state = "revoked"
				case !k.Expires.IsZero() && !k.Expires.After(now):
					state = "expired"
				}
				return []string{k.ID, k.Entity, k.Name, k.Tier, strings.Join(k.Scopes, ","), state, moment(k.Expires), moment(k.LastUsed)}
			})
		},
	}
}

func keyGetCommand() *command {
	return &command{
		name: "get", args: "KEY", summary: "show an API key, without its secret", examples: []string{"sluice key get ID"},
		run: func(ctx context.Context, c *call) error {
			k, err := c.client.Key(ctx, c.arg(0))
			return c.key(&k, err)
		},
	}
}

func keyUpdateCommand() *command {
	var k keyFlags
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: "update", args: "KEY", summary: "change what the flags say, and leave the rest",
		flags:    func(f *flag.FlagSet) { k.define(f); version.define(f); reason.define(f) },
		examples: []string{"sluice key update ID --tier pro", "sluice key update ID --expires 2027-01-01"},
		run: func(ctx context.Context, c *call) error {
			var change client.KeyChange
			if c.said("name") {
				change.Name = &k.name
			}
			if c.said("tier") {
				change.Tier = &k.tier
			}
			if c.said("scope") {
				change.Scopes = (*[]string)(&k.scopes)
			}
			if c.said("expires") {
				change.Expires = &k.expires.Time
			}
			if change == (client.KeyChange{}) {
				return c.wrong("say what to change: --name, --tier, --scope or --expires")
			}
			key, err := reason.client(c).ChangeKey(ctx, c.arg(0), change, int64(version))
			return c.key(&key, err)
		},
	}
}

func keyRevokeCommand() *command {
	var reason reasonFlag
	return &command{
		name: "revoke", args: "KEY", summary: "end a key for good: here at once, elsewhere within a second",
		flags: reason.define, examples: []string{"sluice key revoke ID --reason leaked"},
		run: func(ctx context.Context, c *call) error {
			k, err := reason.client(c).RevokeKey(ctx, c.arg(0))
			return c.key(&k, err)
		},
	}
}

func keyRotateCommand() *command {
	var grace period
	var reason reasonFlag
	return &command{
		name: "rotate", args: "KEY", summary: "make a new key in place of an old one, which works on for a while",
		flags: func(f *flag.FlagSet) {
			f.Var(&grace, "grace", "duration | how long the old one works (default 7d)")
			reason.define(f)
		},
		examples: []string{"sluice key rotate ID", "sluice key rotate ID --grace 48h"},
		run: func(ctx context.Context, c *call) error {
			k, err := reason.client(c).RotateKey(ctx, c.arg(0), time.Duration(grace))
			return c.newKey(&k, err)
		},
	}
}

func keyDeleteCommand() *command {
	var reason reasonFlag
	return &command{
		name: "delete", args: "KEY", summary: "remove a key and what is known about it; revoke leaves that",
		flags: reason.define, examples: []string{"sluice key delete ID"},
		run: func(ctx context.Context, c *call) error {
			if err := reason.client(c).DeleteKey(ctx, c.arg(0)); err != nil {
				return c.trouble(err)
			}
			return c.done("deleted key %s", printable(c.arg(0)))
		},
	}
}
