package client

import (
	"context"
	"time"
)

// NodeList is which nodes share a store.
type NodeList struct {
	Nodes []Presence `json:"nodes"`
	Self  string     `json:"self"`            // the node that answers
	Store string     `json:"store,omitempty"` // as that node sees it: normal, open and so on
}

// Presence is a node and when it last said that it is there.
type Presence struct {
	Name  string    `json:"name"`
	Heard time.Time `json:"heard"`
}

// Nodes lists the nodes that share the store, as the node that answers last heard.
func (c *Client) Nodes(ctx context.Context) (NodeList, error) {
	return ask[NodeList](ctx, c, get(nil, "nodes"))
}
