package main

import (
	"context"
	"flag"
	"io"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func namespaceCommand() *command {
	return &command{
		name: "namespace", summary: "tenants of one installation, each with everything of its own",
		sub:      []*command{namespaceListCommand(), namespaceGetCommand(), namespaceCreateCommand(), namespaceDeleteCommand()},
		examples: []string{"sluice namespace create shop", "sluice entity list --namespace shop"},
	}
}

func (c *call) showNamespace(n *catalog.Namespace, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		return fields{
			{"namespace", n.Name}, {"description", n.Description}, {"created", moment(n.Created)},
			{"being deleted", yes(n.Deleting)}, {"version", number(n.Version)},
		}.writeTo(w)
	})
}

func namespaceListCommand() *command {
	var most length
	return &command{
		name: "list", summary: "list namespaces", flags: most.define, examples: []string{"sluice namespace list"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]catalog.Namespace, string, error) {
				page, err := c.client.Namespaces(ctx, p)
				return page.Namespaces, page.Next, err
			})
			if err != nil {
				return err
			}
			return printList(c, "namespaces", all, more, newTable("NAMESPACE", "DESCRIPTION", "CREATED"), func(n *catalog.Namespace) []string {
				return []string{n.Name, n.Description, moment(n.Created)}
			})
		},
	}
}

func namespaceGetCommand() *command {
	return &command{
		name: "get", args: "NAMESPACE", summary: "show a namespace", examples: []string{"sluice namespace get shop"},
		run: func(ctx context.Context, c *call) error {
			n, err := c.client.Namespace(ctx, c.arg(0))
			return c.showNamespace(&n, err)
		},
	}
}

func namespaceCreateCommand() *command {
	var description string
	var reason reasonFlag
	return &command{
		name: "create", args: "NAMESPACE", summary: "create a namespace; one that is there stays as it is",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&description, "description", "", "text | what it is, for people")
			reason.define(f)
		},
		examples: []string{"sluice namespace create shop --description 'the web shop'"},
		run: func(ctx context.Context, c *call) error {
			n, err := reason.client(c).PutNamespace(ctx, c.arg(0), description)
			return c.showNamespace(&n, err)
		},
	}
}

func namespaceDeleteCommand() *command {
	var reason reasonFlag
	var sure sureFlag
	return &command{
		name: "delete", args: "NAMESPACE", summary: "remove a namespace with everything in it, its audit log too",
		about:    "From\nthe first moment nothing in it can be used. If it is interrupted, give the command\nagain.",
		flags:    func(f *flag.FlagSet) { reason.define(f); sure.define(f) },
		examples: []string{"sluice namespace delete shop --yes"},
		run: func(ctx context.Context, c *call) error {
			if err := sure.check(c, "this cannot be undone"); err != nil {
				return err
			}
			erased, err := reason.client(c).DeleteNamespace(ctx, c.arg(0))
			return c.erased("deleted namespace", erased, err)
		},
	}
}
