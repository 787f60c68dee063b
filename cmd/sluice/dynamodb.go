package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/dynamodb"
)

func dynamodbCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "dynamodb", Short: "create, look at and delete tables of DynamoDB",
		Long: `An address is dynamodb://table?region=eu-west-1, and of another server than the
region's dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:8000. Credentials
come from the usual places of the AWS SDK.`,
		Example: "sluice dynamodb setup dynamodb://limits?region=eu-west-1",
	}, dynamodbSetupCommand(), dynamodbDeleteCommand(), dynamodbListCommand(), dynamodbStatusCommand())
}

func tableConfig(address string) dynamodb.Config {
	return dynamodb.Config{Address: address, Log: slog.Default()}
}

func dynamodbSetupCommand() *cobra.Command {
	var d dynamodb.Definition
	var dry bool
	var as string
	return offline(&cobra.Command{
		Use: "setup ADDRESS", Short: "create the table that serve and gateway use, if it is not there",
		Long: `Doing it again changes nothing. A table that something else has created, from the text
that --dry-run prints, gets the item with its version.`,
		Example: `sluice dynamodb setup dynamodb://limits?region=eu-west-1 --recovery
sluice dynamodb setup dynamodb://limits?region=eu-west-1 --dry-run --as terraform`,
	}, func(f *pflag.FlagSet) {
		f.Int64Var(&d.Capacity.Read, "read", 0, "provisioned read capacity, as a `number` of units (default on demand)")
		f.Int64Var(&d.Capacity.Write, "write", 0, "provisioned write capacity, as a `number` of units (default on demand)")
		f.BoolVar(&d.Recovery, "recovery", false, "keep backups, to restore the table as it was at any second of 35 days")
		f.BoolVar(&dry, "dry-run", false, "change nothing, and print what would be done")
		choose(f, &as, "as", "calls", "what --dry-run prints", "calls", "cloudformation", "terraform")
	}, func(ctx context.Context, c *call) error {
		if (d.Capacity.Read > 0) != (d.Capacity.Write > 0) || d.Capacity.Read < 0 || d.Capacity.Write < 0 {
			return c.wrong("--read and --write go together, and must be above 0")
		}
		if dry {
			text, err := dynamodb.Plan(tableConfig(c.arg(0)), d, as)
			if err != nil {
				return err
			}
			if as == "terraform" {
				return c.print(map[string]string{"terraform": text}, text)
			}
			return c.print(json.RawMessage(text), text)
		}
		if err := dynamodb.Setup(ctx, tableConfig(c.arg(0)), d); err != nil {
			return err
		}
		return c.print(map[string]bool{"ready": true}, "the table is ready\n")
	})
}

func dynamodbDeleteCommand() *cobra.Command {
	var sure sureFlag
	var dry bool
	return offline(&cobra.Command{
		Use: "delete ADDRESS", Short: "delete a table with all that it has",
		Long:    `A table that setup has not made is left alone.`,
		Example: "sluice dynamodb delete dynamodb://limits?region=eu-west-1 --yes",
	}, flags(sure.define, func(f *pflag.FlagSet) {
		f.BoolVar(&dry, "dry-run", false, "change nothing, and print what would be deleted")
	}), func(ctx context.Context, c *call) error {
		if dry {
			s, err := dynamodb.TableStatus(ctx, tableConfig(c.arg(0)))
			if err != nil {
				return err
			}
			text := fmt.Sprintf("would delete table %s in %s, with about %d items\n", s.Table, s.Region, s.Items)
			return c.print(map[string]any{"table": s.Table, "items": s.Items}, text)
		}
		if err := sure.check(c, "it deletes a table with all that it has"); err != nil {
			return err
		}
		if err := dynamodb.DeleteTable(ctx, tableConfig(c.arg(0))); err != nil {
			return err
		}
		return c.print(map[string]bool{"deleted": true}, "deleted\n")
	})
}

func dynamodbListCommand() *cobra.Command {
	return offline(&cobra.Command{
		Use: "list ADDRESS", Short: "list the tables of a region that setup has made",
		Example: "sluice dynamodb list dynamodb://?region=eu-west-1",
	}, nil, func(ctx context.Context, c *call) error {
		names, err := dynamodb.Tables(ctx, tableConfig(c.arg(0)))
		if err != nil {
			return err
		}
		text := ""
		if len(names) > 0 {
			text = strings.Join(names, "\n") + "\n"
		}
		return c.print(map[string][]string{"tables": append([]string{}, names...)}, text)
	})
}

func dynamodbStatusCommand() *cobra.Command {
	return offline(&cobra.Command{
		Use: "status ADDRESS", Short: "show what is known of a table",
		Example: "sluice dynamodb status dynamodb://limits?region=eu-west-1",
	}, nil, func(ctx context.Context, c *call) error {
		s, err := dynamodb.TableStatus(ctx, tableConfig(c.arg(0)))
		if err != nil {
			return err
		}
		capacity := "on demand"
		if s.Capacity != (dynamodb.Capacity{}) {
			capacity = fmt.Sprintf("%d read, %d write", s.Capacity.Read, s.Capacity.Write)
		}
		return c.print(s, fields{
			{"table", s.Table}, {"region", s.Region}, {"state", s.State},
			{"version", fmt.Sprintf("%d, and this program knows %d", s.Version, dynamodb.Version)},
			{"items", fmt.Sprintf("about %d, %d bytes", s.Items, s.Bytes)}, {"capacity", capacity},
			{"deletes what is over", yes(s.Deletes)}, {"recovery", yes(s.Recovery)},
		}.String())
	})
}
