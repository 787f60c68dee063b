package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/policy"
)

func policyCommand() *command {
	return &command{
		name: "policy", summary: "the policy file: check it, and its schema for editors",
		sub: []*command{
			{
				name: "check", args: "FILE...", summary: "find all mistakes of policy files, each with its line and column",
				about:   "It\nneeds no server, and exits with 2 if there are mistakes.",
				offline: true, examples: []string{"sluice policy check policy.yaml"},
				run: checkPolicies,
			},
			{
				name: "schema", summary: "print a JSON Schema of the policy file",
				offline: true, examples: []string{"sluice policy schema > policy.schema.json"},
				run: func(_ context.Context, c *call) error {
					_, err := c.stdout.Write(policy.Schema())
					return err
				},
			},
		},
		examples: []string{"sluice policy check policy.yaml"},
	}
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
