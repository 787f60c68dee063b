package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/policy"
)

func limitsCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "limits", Short: "compare a file of limits with what is stored, and apply it",
		Long: `The file has the format of the policy. What it stores belongs to the name that
--name gives: apply removes only what was stored under the same name and is no
longer declared. The name stays when the file is moved.`,
		Example: `sluice limits plan limits.yaml --name plans
sluice limits diff limits.yaml --name plans || sluice limits apply limits.yaml --name plans`,
	}, planCommand("plan", "print what apply would change", false),
		planCommand("diff", "print what apply would change, and exit with 1 if that is anything", false),
		planCommand("apply", "store what a file declares, all or nothing", true),
		limitsListCommand())
}

func planCommand(name, summary string, apply bool) *cobra.Command {
	var owner string
	var reason reasonFlag
	return online(&cobra.Command{
		Use: name + " " + "FILE", Short: summary,
		Example: "sluice limits " + name + " limits.yaml --name plans" + "\n" + "cat limits.yaml | sluice limits " + name + " - --name plans",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&owner, "name", "", "`name` that owns what the file declares")
		if apply {
			reason.define(f)
		}
	}, func(ctx context.Context, c *call) error {
		if owner == "" {
			return c.wrong("want --name: it owns what the file declares, wherever the file is")
		}
		file, err := c.input(c.arg(0))
		if err != nil {
			return err
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, policy.MaxFile+1))
		if err != nil {
			return err
		}
		ask := reason.client(c).Plan
		if apply {
			ask = reason.client(c).Apply
		}
		plan, err := ask(ctx, owner, bytes.NewReader(text))
		if err != nil {
			return c.planTrouble(err)
		}
		said := strings.TrimSpace(plan.Text) + "\n"
		if plan.Applied && !plan.Empty {
			said += "applied\n"
		}
		if err := c.printAnswer(nil, said); err != nil {
			return err
		}
		if name == "diff" && !plan.Empty {
			return errRefused
		}
		return nil
	})
}

// notThere is how the server says that something does not exist which a
// command can create.
var notThere = regexp.MustCompile(`^(namespace|plan) ("[\w.:@/-]+"): not found`)

// orCreate adds to such an error the command that creates it.
func orCreate(err error) error {
	if found := notThere.FindStringSubmatch(fmt.Sprint(err)); found != nil {
		command := map[string]string{"namespace": "namespace create", "plan": "slots plan set"}[found[1]]
		return fmt.Errorf("%w; create it with sluice %s %s", err, command, strings.Trim(found[2], `"`))
	}
	return err
}

// planTrouble says what to do if a file cannot be planned for its namespace.
func (c *call) planTrouble(err error) error {
	var answer *client.Error
	if errors.As(err, &answer) && answer.Field == "namespace" {
		return fmt.Errorf("%w; a file for another namespace names it: \"namespace: %s\"", err, printable(c.namespace))
	}
	return orCreate(err)
}
