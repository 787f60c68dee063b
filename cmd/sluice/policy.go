package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/policy"
)

func policyCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "policy", Short: "check a policy file, or print its schema",
		Example: "sluice policy check policy.yaml",
	},
		offline(&cobra.Command{
			Use: "check FILE...", Short: "report all mistakes in policy files with line and column",
			Long:    "No server is needed. The exit code is 2 if there are mistakes.",
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
	all := policy.Mistakes{}
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
		}
	}
	if c.json {
		if err := c.printJSON(map[string]any{"ok": len(all) == 0, "mistakes": all}); err != nil {
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
