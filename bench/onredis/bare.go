package onredis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/bench/contest"
)

// bareScript is about the least that a bucket on Redis can do: the server's
// clock, one GET, one SET, and yes or no. It counts in floating point, which
// is not exact, and answers nothing else.
const bareScript = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local burst = tonumber(ARGV[1])
local tokens = burst
local state = redis.call('GET', KEYS[1])
if state then
  local last
  tokens, last = struct.unpack('dd', state)
  tokens = math.min(burst, tokens + (now - last) * ARGV[2])
end
if tokens < 1 then
  return 0
end
redis.call('SET', KEYS[1], struct.pack('dd', tokens - 1, now), 'PX', ARGV[3])
return 1
`

// openBare runs the script through rueidis, the client that Sluice uses, with
// its usual settings.
func openBare(address string, l limit) (*side, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	sha, err := client.Do(ctx, client.B().ScriptLoad().Script(bareScript).Build()).ToString()
	if err != nil {
		client.Close()
		return nil, err
	}
	args := []string{
		strconv.Itoa(l.burst),
		strconv.FormatFloat(1/float64(l.every.Microseconds()), 'g', -1, 64),
		strconv.FormatInt(keepKeys.Milliseconds(), 10),
	}
	take := func(key string) (bool, error) {
		n, err := client.Do(ctx, client.B().Evalsha().Sha1(sha).Numkeys(1).Key("bare:"+key).Arg(args...).Build()).AsInt64()
		return n == 1, err
	}
	return &side{caller: func() contest.Take { return take }, close: client.Close}, nil
}
