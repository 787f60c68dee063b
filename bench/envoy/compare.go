package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-go/sluice/bench/redisserver"
)

// CompareFor compares answers under new files again and again, for so long or
// until one differs.
func CompareFor(duration time.Duration, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sluice-envoy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := BuildPeer(dir)
	if err != nil {
		return err
	}
	server, err := redisserver.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	compared, over := 0, 0
	for life := 0; ctx.Err() == nil; life++ {
		d := &Differ{Rand: rand.New(rand.NewPCG(rand.Uint64(), 0))}
		for i := range 20 {
			d.Domains = append(d.Domains, fmt.Sprintf("life-%d-%d", life, i))
		}
		root := filepath.Join(dir, fmt.Sprint(life))
		if err := WriteFiles(d.Rand, root, d.Domains); err != nil {
			return err
		}
		if err := d.live(ctx, program, root, server.Address); err != nil {
			return err
		}
		compared, over = compared+d.Compared, over+d.Over
		fmt.Fprintf(log, "%d requests compared, %d over the limit: no difference\n", compared, over)
	}
	return nil
}

// live compares a few thousand answers of freshly started servers.
func (d *Differ) live(ctx context.Context, program, root, redis string) (err error) {
	theirs, err := StartPeer(program, root, redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.Close()) }()
	ours, err := StartOurs(root, redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	for address, client := range map[string]*ServiceClient{theirs.Address: &d.Peer, ours.Address: &d.Ours} {
		conn, err := Dial(address)
		if err != nil {
			return err
		}
		defer conn.Close()
		*client = Client(conn)
	}
	for range 5000 {
		switch err := d.Compare(ctx); {
		case ctx.Err() != nil, errors.Is(err, ErrBoundary):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
