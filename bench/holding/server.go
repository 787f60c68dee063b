package holding

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// server is the Redis that all sides use in turn.
type server struct {
	address string
	client  rueidis.Client
}

func connect(address string) (*server, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return &server{address, client}, nil
}

// clear forgets all buckets and all counts.
func (s *server) clear() error {
	ctx := context.Background()
	if err := s.client.Do(ctx, s.client.B().Flushall().Sync().Build()).Error(); err != nil {
		return err
	}
	return s.client.Do(ctx, s.client.B().ConfigResetstat().Build()).Error()
}

// commands is how many calls were served since clear, and how many commands
// that makes with those that scripts ran.
func (s *server) commands() (calls, all int64, err error) {
	text, err := s.client.Do(context.Background(), s.client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		return 0, 0, err
	}
	var scripts, rest int64
	for line := range strings.Lines(text) {
		name, n, ok := commandCount(line)
		switch {
		case !ok:
		case name == "evalsha", name == "eval", name == "fcall":
			scripts += n
		default:
			rest += n
		}
	}
	if scripts == 0 && rest == 0 {
		return 0, 0, fmt.Errorf("the server counted no commands: %q", text)
	}
	return scripts, scripts + rest, nil
}

// commandCount reads a line like cmdstat_get:calls=12,usec=34.
func commandCount(line string) (name string, calls int64, ok bool) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
	if !ok {
		return "", 0, false
	}
	count, _, _ := strings.Cut(rest, ",")
	calls, err := strconv.ParseInt(count, 10, 64)
	return name, calls, err == nil
}
