package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/client"
)

// length is a flag of lists: how many things to show.
type length int

func (l *length) define(f *pflag.FlagSet) {
	f.IntVar((*int)(l), "max", 100, "show at most this `number`")
}

// collect reads pages until there are as many things as wanted, or no more.
func collect[T any](c *call, most length, page func(client.Page) ([]T, string, error)) (all []T, more bool, err error) {
	if most < 1 {
		return nil, false, c.wrong("--max %d: want at least 1", most)
	}
	all = []T{}
	cursor := ""
	for {
		some, next, err := page(client.Page{Cursor: cursor, Max: min(int(most)-len(all), 1000)})
		if err != nil {
			return nil, false, err
		}
		all = append(all, some...)
		if next == "" || len(all) >= int(most) {
			return all, next != "", nil
		}
		cursor = next
	}
}

// printList writes things as JSON under their name, or in a table; unless
// there was an error, which it returns.
func printList[T any](c *call, err error, name string, all []T, more bool, t *table, row func(*T) []string) error {
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]any{name: all, "more": more})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(c.stdout, "no %s\n", name)
		return err
	}
	for i := range all {
		t.add(row(&all[i])...)
	}
	if _, err := io.WriteString(c.stdout, t.String()); err != nil {
		return err
	}
	if more {
		_, err := io.WriteString(c.stderr, "there are more; --max shows them\n")
		return err
	}
	return nil
}
