package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/internal/exactjson"
)

// input opens a file, or the standard input for "-".
func (c *call) input(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(c.stdin), nil
	}
	return os.Open(path)
}

const (
	maxLine    = 1 << 20 // bytes
	batchTakes = 100     // as many as the server decides at once
)

// lines reads JSON lines, each into a T, and hands them on in batches.
func lines[T any](name string, r io.Reader, most int, each func(firstLine int, batch []T) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	var batch []T
	line, first := 0, 1
	for scanner.Scan() {
		line++
		text := bytes.TrimSpace(scanner.Bytes())
		if len(text) == 0 {
			continue
		}
		var one T
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&one)
		if err == nil {
			err = exactjson.Check(text, reflect.TypeFor[T]())
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if len(batch) == 0 {
			first = line
		}
		if batch = append(batch, one); len(batch) == most {
			if err := each(first, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, line+1, err)
	}
	if len(batch) > 0 {
		return each(first, batch)
	}
	return nil
}

// takeLine is a take in a file.
type takeLine struct {
	Entity   string                  `json:"entity"`
	Resource string                  `json:"resource"`
	Tier     string                  `json:"tier"`
	Cost     json.RawMessage         `json:"cost"`
	Limits   map[string]sluice.Limit `json:"limits"`
}

func (l *takeLine) take() (client.Take, error) {
	t := client.Take{Entity: l.Entity, Resource: l.Resource, Tier: l.Tier, Limits: l.Limits}
	switch {
	case len(l.Cost) == 0:
	case l.Cost[0] == '{':
		if err := json.Unmarshal(l.Cost, &t.Costs); err != nil {
			return t, fmt.Errorf("cost: %w", err)
		}
	default:
		if err := t.Cost.UnmarshalJSON(l.Cost); err != nil {
			return t, fmt.Errorf("cost: %w", err)
		}
	}
	return t, nil
}

// takeBatch takes what a file says, a line of output for each. With a key, each
// request has its own, by the line that it begins with.
func takeBatch(ctx context.Context, c *call, path, key string) error {
	if len(c.args) > 0 {
		return c.wrong("--batch: the file says who takes, not %q", c.args[0])
	}
	file, err := c.input(path)
	if err != nil {
		return err
	}
	defer file.Close()
	refused, failed := false, 0
	err = lines(path, file, batchTakes, func(first int, batch []takeLine) error {
		takes := make([]client.Take, len(batch))
		for i := range batch {
			var err error
			if takes[i], err = batch[i].take(); err != nil {
				return fmt.Errorf("%s: take %d from line %d on: %w", path, i+1, first, err)
			}
			if key != "" {
				takes[i].ID = fmt.Sprintf("%s/%d", key, first)
			}
		}
		outcomes, err := c.client.Takes(ctx, takes...)
		if err != nil {
			return err
		}
		for i := range outcomes {
			switch o := &outcomes[i]; {
			case o.Err != nil:
				failed++
			case !o.Decision.Allowed:
				refused = true
			}
		}
		return c.printAnswer(nil, outcomesText(takes, outcomes))
	})
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d takes were not decided", failed)
	case refused:
		return errRefused
	}
	return nil
}

func outcomesText(takes []client.Take, outcomes []client.Outcome) string {
	var b strings.Builder
	for i := range outcomes {
		text := ""
		if err := outcomes[i].Err; err != nil {
			text = "error: " + err.Error()
		} else {
			text = verdict(&outcomes[i].Decision)
		}
		fmt.Fprintf(&b, "%s %s: %s\n", printable(takes[i].Entity), printable(takes[i].Resource), printable(text))
	}
	return b.String()
}
