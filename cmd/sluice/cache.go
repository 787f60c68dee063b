package main

import (
	"context"

	"github.com/spf13/cobra"
)

func cacheCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "cache", Short: "flush what nodes remember of the catalog",
		Example: "sluice cache flush",
	}, cacheFlushCommand())
}

func cacheFlushCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "flush", Short: "make every node read limits and keys again",
		Long: `Changes made with sluice or the HTTP API reach every node by themselves. This is
for changes made in the database by hand, and covers all namespaces.`,
		Example: "sluice cache flush",
	}, nil, func(ctx context.Context, c *call) error {
		return c.done(c.client.FlushCache(ctx), "flushed")
	})
}
