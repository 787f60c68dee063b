package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func namespaceCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "namespace", Short: "manage namespaces, which keep entities and limits apart",
		Example: `sluice namespace create shop
sluice entity list --namespace shop`,
	}, namespaceListCommand(), namespaceGetCommand(), namespaceCreateCommand(), namespaceDeleteCommand())
}

func (c *call) showNamespace(n *catalog.Namespace, err error) error {
	return c.printAnswer(err, fields{
		{"namespace", n.Name}, {"description", n.Description}, {"created", moment(n.Created)},
		{"being deleted", yes(n.Deleting)}, {"version", number(n.Version)},
	}.String())
}

func namespaceListCommand() *cobra.Command {
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list namespaces",
		Example: "sluice namespace list",
	}, most.define, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]catalog.Namespace, string, error) {
			page, err := c.client.Namespaces(ctx, p)
			return page.Namespaces, page.Next, err
		})
		return printList(c, err, "namespaces", all, more, newTable("NAMESPACE", "DESCRIPTION", "CREATED"), func(n *catalog.Namespace) []string {
			return []string{n.Name, n.Description, moment(n.Created)}
		})
	})
}

func namespaceGetCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "get NAMESPACE", Short: "show a namespace",
		Example: "sluice namespace get shop",
	}, nil, func(ctx context.Context, c *call) error {
		n, err := c.client.Namespace(ctx, c.arg(0))
		return c.showNamespace(&n, err)
	})
}

func namespaceCreateCommand() *cobra.Command {
	var description string
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "create NAMESPACE", Short: "create a namespace; an existing one is unchanged",
		Example: "sluice namespace create shop --description 'the web shop'",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&description, "description", "", "description, as `text`")
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		n, err := reason.client(c).PutNamespace(ctx, c.arg(0), description)
		return c.showNamespace(&n, err)
	})
}

func namespaceDeleteCommand() *cobra.Command {
	var reason reasonFlag
	var sure sureFlag
	return online(&cobra.Command{
		Use: "delete NAMESPACE", Short: "delete a namespace with everything in it, including its audit log",
		Long: `The namespace cannot be used from the moment the deletion begins. If it is
interrupted, run the command again.`,
		Example: "sluice namespace delete shop --yes",
	}, flags(reason.define, sure.define), func(ctx context.Context, c *call) error {
		if err := sure.check(c, "this cannot be undone"); err != nil {
			return err
		}
		erased, err := reason.client(c).DeleteNamespace(ctx, c.arg(0))
		return c.erased("deleted namespace", erased, err)
	})
}
