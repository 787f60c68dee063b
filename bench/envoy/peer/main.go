// Command peer is envoyproxy/ratelimit, built from its own packages with its
// own dependencies, for comparison. It is a module of its own so that they
// meet neither the product's nor the benchmarks'.
//
//	peer            serves, set up by its environment variables
//	peer check      reads configuration files from standard input, each after
//	                its length on a line, and says what is wrong with each
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "check" {
		if err := check(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	r := runner.NewRunner(settings.NewSettings())
	r.Run()
}

// check answers each file with a line of JSON: what is wrong with it, or "".
func check(in io.Reader, out io.Writer) error {
	manager := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.NewSettings())
	reader, encoder := bufio.NewReader(in), json.NewEncoder(out)
	for {
		var length int
		if _, err := fmt.Fscanf(reader, "%d\n", &length); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		content := make([]byte, length)
		if _, err := io.ReadFull(reader, content); err != nil {
			return err
		}
		if err := encoder.Encode(mistake(string(content), manager)); err != nil {
			return err
		}
	}
}

func mistake(content string, manager stats.Manager) (text string) {
	defer func() {
		if wrong := recover(); wrong != nil {
			text = fmt.Sprint(wrong)
		}
	}()
	root := config.ConfigFileContentToYaml("config.test.yaml", content)
	config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{{Name: "config.test.yaml", ConfigYaml: root}}, manager, false)
	return ""
}
