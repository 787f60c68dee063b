package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/client"
)

// nodeName is what this process is called in lists of nodes.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.100s/%d", host, os.Getpid())
}

// nodes lists the nodes that share the store. One that has its own is alone.
func (s *stack) nodes() client.NodeList {
	all := client.NodeList{Self: s.census.Name, Nodes: []client.Presence{}}
	for _, n := range s.census.Known() {
		all.Nodes = append(all.Nodes, client.Presence{Name: n.Name, Heard: n.Heard})
	}
	if s.degraded == nil {
		all.Nodes = append(all.Nodes, client.Presence{Name: s.census.Name, Heard: time.Now()})
	}
	return all
}

func nodesCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "nodes", Short: "list the nodes that share the store",
		Long: `The node that answers lists those that it last heard of from the store, up to ten
seconds ago, or before the store went away. A node that dies is listed for half a minute.`,
		Example: "sluice nodes",
	}, nil, func(ctx context.Context, c *call) error {
		all, err := c.client.Nodes(ctx)
		return c.printAnswer(err, nodesText(&all))
	})
}

func nodesText(all *client.NodeList) string {
	t := newTable("NODE", "HEARD")
	for _, n := range all.Nodes {
		name := n.Name
		if name == all.Self {
			name += " (this one)"
		}
		t.add(name, moment(n.Heard))
	}
	if all.Store == "" {
		return t.String()
	}
	return fmt.Sprintf("%sthe store is %s\n", t, printable(all.Store))
}
