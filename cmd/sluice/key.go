package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func keyCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "key", Short: "create, inspect, rotate and revoke API keys",
		Long: `A key is printed once, when it is created; only its hash is stored. The scopes
sluice:take, sluice:read, sluice:service and sluice:admin allow it to use this
server: for its own entity, to look, for any entity, and for everything.`,
		Example: `sluice key create alice --scope sluice:take --expires 90d
sluice key rotate ID --grace 48h`,
	}, keyCreateCommand(), keyListCommand(), keyGetCommand(), keyUpdateCommand(),
		keyRevokeCommand(), keyRotateCommand(), keyDeleteCommand())
}

// keyFlags are what can be said about a key.
type keyFlags struct {
	name, tier string
	scopes     names
	expires    instant
}

func (k *keyFlags) define(f *pflag.FlagSet) {
	k.expires.ahead = true
	f.StringVar(&k.name, "name", "", "display `name`")
	f.StringVar(&k.tier, "tier", "", "its `tier`, if its entity has none")
	f.Var(&k.scopes, "scope", "a `scope` that the key has; may be repeated")
	f.Var(&k.expires, "expires", "expiry `time`, or 90d for ninety days from now (default never)")
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
	return c.printAnswer(err, keyFields(k).String())
}

func (c *call) newKey(k *client.NewKey, err error) error {
	return c.printAnswer(err, fmt.Sprintf("%s\n%s\n\nKeep it: it is not shown again.\n", keyFields(&k.Key), k.Secret))
}

func keyCreateCommand() *cobra.Command {
	var k keyFlags
	var reason reasonFlag
	var create bool
	return online(&cobra.Command{
		Use: "create ENTITY", Short: "create an API key for an entity",
		Example: `sluice key create alice --name laptop --scope sluice:take --expires 90d
sluice key create newcomer --create`,
	}, flags(k.define, reason.define, func(f *pflag.FlagSet) {
		f.BoolVar(&create, "create", false, "create the entity, too, if there is none of this name")
	}), func(ctx context.Context, c *call) error {
		made, err := reason.client(c).CreateKey(ctx, catalog.Key{
			Entity: c.arg(0), Name: k.name, Tier: k.tier, Scopes: k.scopes, Expires: k.expires.Time,
		}, create)
		if e, ok := errors.AsType[*client.Error](err); ok { // says it as the API has it
			e.Detail = strings.Replace(e.Detail, `send "create": true`, "use --create", 1)
		}
		return c.newKey(&made, err)
	})
}

func keyListCommand() *cobra.Command {
	var entity string
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list API keys",
		Example: "sluice key list --entity alice",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&entity, "entity", "", "only those of this `entity`")
		most.define(f)
	}, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]catalog.Key, string, error) {
			page, err := c.client.Keys(ctx, entity, p)
			return page.Keys, page.Next, err
		})
		now := time.Now()
		return printList(c, err, "keys", all, more, newTable("KEY", "ENTITY", "NAME", "TIER", "SCOPES", "STATE", "EXPIRES", "LAST USED"), func(k *catalog.Key) []string {
			state := "valid"
			switch {
			case !k.Revoked.IsZero():
				state = "revoked"
			case !k.Expires.IsZero() && !k.Expires.After(now):
				state = "expired"
			}
			return []string{k.ID, k.Entity, k.Name, k.Tier, strings.Join(k.Scopes, ","), state, moment(k.Expires), moment(k.LastUsed)}
		})
	})
}

func keyGetCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "get KEY", Short: "show an API key, without its secret",
		Example: "sluice key get ID",
	}, nil, func(ctx context.Context, c *call) error {
		k, err := c.client.Key(ctx, c.arg(0))
		return c.key(&k, err)
	})
}

func keyUpdateCommand() *cobra.Command {
	var k keyFlags
	var version versionFlag
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "update KEY", Short: "change what the flags name and leave the rest",
		Example: `sluice key update ID --tier pro
sluice key update ID --expires 2027-01-01`,
	}, flags(k.define, version.define, reason.define), func(ctx context.Context, c *call) error {
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
	})
}

func keyRevokeCommand() *cobra.Command {
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "revoke KEY", Short: "revoke a key: here at once, on other nodes within a second",
		Example: "sluice key revoke ID --reason leaked",
	}, reason.define, func(ctx context.Context, c *call) error {
		k, err := reason.client(c).RevokeKey(ctx, c.arg(0))
		return c.key(&k, err)
	})
}

func keyRotateCommand() *cobra.Command {
	var grace period
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "rotate KEY", Short: "create a key to replace an old one, which keeps working for a while",
		Example: `sluice key rotate ID
sluice key rotate ID --grace 48h`,
	}, func(f *pflag.FlagSet) {
		f.Var(&grace, "grace", "`duration` for which the old key still works (default 7d)")
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		k, err := reason.client(c).RotateKey(ctx, c.arg(0), time.Duration(grace))
		return c.newKey(&k, err)
	})
}

func keyDeleteCommand() *cobra.Command {
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "delete KEY", Short: "delete a key and its record",
		Example: "sluice key delete ID",
	}, reason.define, func(ctx context.Context, c *call) error {
		return c.done(reason.client(c).DeleteKey(ctx, c.arg(0)), "deleted key %s", printable(c.arg(0)))
	})
}
