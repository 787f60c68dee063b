package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/policy"
)

func policyCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "policy", Short: "check a policy file, or print its schema",
		Example: "sluice policy check policy.yaml",
	},
		offline(&cobra.Command{
			Use: "check FILE...", Short: "report all mistakes in policy files with line and column",
			Long:    "No server is needed. The exit code is 2 if there are mistakes. Warnings are\nabout methods that HTTP does not have, files without limits, files of secrets that\nare not there, and tiers without a quota for times without the store.",
			Example: "sluice policy check policy.yaml",
		}, nil, checkPolicies),
		offline(&cobra.Command{
			Use: "schema", Short: "print a JSON Schema of the policy file",
			Example: "sluice policy schema > policy.schema.json",
		}, nil, func(_ context.Context, c *call) error {
			_, err := c.stdout.Write(policy.Schema())
			return err
		}))
}

func checkPolicies(_ context.Context, c *call) error {
	all, warnings := policy.Mistakes{}, []string{}
	for _, path := range c.args {
		p, err := policy.Load(path)
		var mistakes policy.Mistakes
		switch {
		case errors.As(err, &mistakes):
			all = append(all, mistakes...)
			if !c.json {
				if _, err := io.WriteString(c.stderr, mistakes.Error()+"\n"); err != nil {
					return err
				}
			}
		case err != nil:
			return err
		default:
			if err := c.say("%s: ok, %s, revision %s", path, tiersOf(p), p.Revision); err != nil {
				return err
			}
			for _, w := range policyWarnings(path, p) {
				warnings = append(warnings, w)
				if c.json {
					continue
				}
				if _, err := fmt.Fprintln(c.stderr, w); err != nil {
					return err
				}
			}
		}
	}
	if c.json {
		if err := c.printJSON(map[string]any{"ok": len(all) == 0, "mistakes": all, "warnings": warnings}); err != nil {
			return err
		}
	}
	if len(all) > 0 {
		return errSilent
	}
	return nil
}

func tiersOf(p *policy.Policy) string {
	n := len(p.Declared.Tiers)
	if n == 1 {
		return "1 tier"
	}
	return fmt.Sprintf("%d tiers", n)
}

// policyWarnings says what is not a mistake in a file, and hardly meant.
func policyWarnings(path string, p *policy.Policy) (all []string) {
	for i := range p.Warnings {
		all = append(all, p.Warnings[i].Error())
	}
	warn := func(format string, args ...any) { all = append(all, path+": warning: "+fmt.Sprintf(format, args...)) }
	if d := p.Declared; len(d.System) == 0 && len(d.Resources) == 0 && len(d.Tiers) == 0 && len(d.Entities) == 0 {
		warn("it declares no limits, so every request passes unless limits are stored in the catalog")
	}
	if jwt := p.Identity.JWT; jwt != nil {
		for _, f := range [][2]string{{"secret_file", jwt.SecretFile}, {"public_key_file", jwt.PublicKeyFile}, {"jwks_file", jwt.JWKSFile}} {
			if f[1] == "" {
				continue
			}
			if _, err := os.Stat(f[1]); err != nil {
				warn("identity.jwt.%s: %v; a server with this file does not start", f[0], err)
			}
		}
	}
	usual, quotas := failover.DefaultQuotas(), degraded(&p.Degraded).Quotas
	if len(quotas) == 0 {
		quotas = usual
	}
	if _, others := p.Degraded.Quotas[""]; !others {
		for _, tier := range slices.Sorted(maps.Keys(p.Declared.Tiers)) {
			if _, has := quotas[tier]; !has {
				warn("tier %s has no quota for times without a shared store, so its callers get %s then: name it under degraded.quotas", tier, usual[""].Limit)
			}
		}
	}
	return all
}
