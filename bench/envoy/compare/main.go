// Command compare asks Sluice's service for Envoy and envoyproxy/ratelimit the
// same random questions for a while, and says where the answers differ.
//
//	go run ./envoy/compare 10m
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/sluice-go/sluice/bench/envoy"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == envoy.WorkerCommand {
		return envoy.Worker(args)
	}
	length := time.Minute
	if len(args) > 0 {
		d, err := time.ParseDuration(args[0])
		if err != nil || d <= 0 || len(args) > 1 {
			return fmt.Errorf("%q: want for how long to compare, such as 10m", args)
		}
		length = d
	}
	return envoy.CompareFor(length, os.Stderr)
}
