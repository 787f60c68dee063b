package envoy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice"
)

// call is one request being decided. Its memory is used again.
type call struct {
	service *Service
	domain  *domain
	match   match
	buffer  []byte

	found []found // for each descriptor
	asked []int   // the descriptors that the store is asked about, in order

	take     sluice.Take
	decision sluice.Decision
}

// found is what a descriptor asks for and what it got.
type found struct {
	rule      *rule
	entity    string
	hits      uint64
	stats     *stats
	unlimited bool

	result sluice.Result
	time   time.Time // in the store's time
	over   bool
}

func (f *found) cost() int64 { return int64(f.hits) * sluice.Token }

// blocks reports whether a descriptor that is over refuses the request.
func (c *call) blocks(f *found) bool {
	return !f.rule.shadow && !f.rule.quota && !c.service.settings.Shadow && !c.service.settings.Quota
}

// forget drops what belongs to the caller.
func (c *call) forget() {
	clear(c.found)
	c.domain = nil
	clear(c.take.Demands)
	c.decision.Demands = nil
}

func (c *call) decide(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	if request.GetDomain() == "" {
		return nil, serviceError("rate limit domain must not be empty")
	}
	if len(request.GetDescriptors()) == 0 {
		return nil, serviceError("rate limit descriptor list must not be empty")
	}
	if err := c.findAll(c.service.tree.Load(), request); err != nil {
		return nil, err
	}
	if len(c.asked) > 0 {
		if err := c.ask(ctx); err != nil {
			return nil, err
		}
		c.count()
	}
	return c.answer(request), nil
}

// findAll finds the rule of each descriptor, leaves out those that another
// one replaces, and says which are to be asked about.
func (c *call) findAll(t *tree, request *pb.RateLimitRequest) error {
	descriptors := request.GetDescriptors()
	c.found = slices.Grow(c.found[:0], len(descriptors))[:len(descriptors)]
	c.asked = c.asked[:0]
	replacing := false
	c.domain = t.domains[request.GetDomain()]
	if c.domain == nil {
		c.service.counts.noDomain.Add(uint64(len(descriptors)))
		clear(c.found)
		return nil
	}
	for i, d := range descriptors {
		f := &c.found[i]
		*f = found{hits: max(1, uint64(request.GetHitsAddend()))}
		if d.GetHitsAddend() != nil {
			f.hits = d.GetHitsAddend().GetValue()
		}
		if l := d.GetLimit(); l != nil {
			r, err := override(l.GetRequestsPerUnit(), unit(l.GetUnit()))
			if err != nil {
				return err
			}
			f.rule, c.match.shares = r, c.match.shares[:0]
			f.stats = c.service.counts.of(descriptorKey(request.GetDomain(), d.GetEntries()), nil)
		} else if f.rule = c.domain.find(d.GetEntries(), &c.match); f.rule == nil {
			continue
		} else if f.stats = f.rule.stats; f.rule.dynamic {
			key := c.domain.statsKey(request.GetDomain(), f.rule, d.GetEntries(), &c.match)
			f.stats = c.service.counts.of(key, f.rule.stats)
		}
		replacing = replacing || len(f.rule.replaces) > 0
		if f.rule.unlimited {
			f.unlimited = true
			continue
		}
		if f.hits > math.MaxInt64 {
			return serviceError("ERR value is not an integer or out of range") // as Redis says there
		}
		f.hits = min(f.hits, maxHits) // which is over any limit all the same
		c.buffer = appendEntity(c.buffer[:0], d.GetEntries(), c.match.shares)
		f.entity = keyPart(c.buffer)
	}
	if replacing {
		c.replace()
	}
	for i := range c.found {
		if f := &c.found[i]; f.rule != nil && !f.unlimited {
			c.asked = append(c.asked, i)
		}
	}
	return nil
}

// replace leaves out the rules that another one of the request replaces.
// Unlimited rules are never replaced, but do replace.
func (c *call) replace() {
	names := map[string]bool{}
	for i := range c.found {
		if r := c.found[i].rule; r != nil {
			for _, name := range r.replaces {
				names[name] = true
			}
		}
	}
	for i := range c.found {
		if f := &c.found[i]; f.rule != nil && !f.unlimited && f.rule.name != "" && names[f.rule.name] {
			*f = found{}
		}
	}
}

// descriptorKey is the statistics' key of a limit that a request brings.
func descriptorKey(domain string, entries []*entry) string {
	b := append([]byte(domain), '.')
	for i, e := range entries {
		if i > 0 {
			b = append(b, '.')
		}
		b = append(b, e.GetKey()...)
		if e.GetValue() != "" {
			b = append(append(b, '_'), e.GetValue()...)
		}
	}
	return string(b)
}

// count adds to the statistics.
func (c *call) count() {
	for _, i := range c.asked {
		f := &c.found[i]
		if f.stats == nil {
			continue
		}
		limit := uint64(f.rule.limit.Capacity().Thousandths() / sluice.Token)
		after := uint64(max(int64(limit)-(f.result.Remaining.Thousandths()/sluice.Token), 0))
		if f.result.Consumed.Thousandths() == 0 {
			after += f.hits
		}
		f.stats.add(f.hits, after, limit, c.service.settings.NearLimitRatio, f.over, f.rule.shadow)
	}
}

// storeError is what the caller is told if there is no decision. What the
// store said is for the log of whoever runs it.
func storeError(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "no decision in time")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller has gone")
	case errors.Is(err, sluice.ErrUnavailable), errors.Is(err, sluice.ErrUnknown), errors.Is(err, sluice.ErrClosed):
		return status.Error(codes.Unavailable, "the store gave no answer")
	}
	return status.Error(codes.Internal, fmt.Sprintf("no decision: %v", err))
}
