package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/client"
)

func sanctionsCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "sanctions", Short: "list and lift bans and emergency limits",
		Long: `The policy's section abuse says who gets one. Nodes that share a store share them.`,
		Example: `sluice sanctions list
sluice sanctions lift key:alice`,
	}, sanctionListCommand(), sanctionLiftCommand())
}

func sanctionListCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "list", Short: "list who is banned or under the emergency limit, and until when",
		Example: "sluice sanctions list",
	}, nil, func(ctx context.Context, c *call) error {
		all, err := c.client.Sanctions(ctx)
		return printList(c, err, "sanctions", all.Sanctions, false, newTable("ENTITY", "KIND", "REASON", "SINCE", "UNTIL"),
			func(s *client.Sanction) []string {
				return []string{s.Entity, s.Kind, s.Reason, moment(s.Since), moment(s.Until)}
			})
	})
}

func sanctionLiftCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "lift ENTITY", Short: "end every sanction on a caller, on all nodes",
		Example: "sluice sanctions lift key:alice",
	}, nil, func(ctx context.Context, c *call) error {
		lifted, err := c.client.LiftSanction(ctx, c.arg(0))
		text := "there was none\n"
		if lifted {
			text = "lifted\n"
		}
		return c.printAnswer(err, text)
	})
}
