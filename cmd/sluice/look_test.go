package main

import (
	"testing"

	"github.com/sluice-go/sluice/client"
)

func TestInLine(t *testing.T) {
	nodes := func(n int) *int { return &n }
	for want, a := range map[string]client.Activity{
		"":                     {},
		"0":                    {WaitingNodes: nodes(0), Node: &client.Node{}},
		"on 1 node":            {WaitingNodes: nodes(1), Node: &client.Node{}},
		"on 2 nodes":           {WaitingNodes: nodes(2)},
		"3 for 4s":             {WaitingNodes: nodes(1), Node: &client.Node{Waiting: 3, LongestWait: 4}},
		"3 for 4s, on 2 nodes": {WaitingNodes: nodes(2), Node: &client.Node{Waiting: 3, LongestWait: 4}},
	} {
		if got := inLine(&a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
