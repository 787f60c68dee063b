package envoy

import (
	"fmt"
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-go/sluice"
)

// answer writes what was found, by the rules of envoyproxy/ratelimit.
func (c *call) answer(request *pb.RateLimitRequest) *pb.RateLimitResponse {
	set := &c.service.settings
	n := len(c.found)
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, n)
	resets := make([]durationpb.Duration, len(c.asked))
	response := &pb.RateLimitResponse{
		OverallCode: pb.RateLimitResponse_OK,
		Statuses:    make([]*pb.RateLimitResponse_DescriptorStatus, n),
	}
	closest, least := -1, uint32(math.MaxUint32)
	var violations []int
	next := 0
	for i := range c.found {
		f, st := &c.found[i], &statuses[i]
		response.Statuses[i] = st
		st.Code = pb.RateLimitResponse_OK
		switch {
		case f.unlimited:
			st.LimitRemaining = math.MaxUint32
			continue
		case f.rule == nil:
			continue
		}
		if f.result.Unknown && !f.over { // nobody knows what is left, and of what
			continue
		}
		reset := &resets[next]
		next++
		st.DurationUntilReset = reset
		reset.Seconds = f.resetIn()
		if !f.result.Unknown { // or a local quota has decided
			st.CurrentLimit = f.rule.current
		}
		if !f.over {
			st.LimitRemaining = uint32(f.result.Remaining.Whole())
		}
		if st.LimitRemaining < least && !f.result.Unknown {
			closest, least = i, st.LimitRemaining
		}
		if !f.over || f.rule.shadow {
			continue
		}
		if set.Quota || f.rule.quota {
			violations = append(violations, i)
			st.DurationUntilReset = nil
			continue
		}
		st.Code = pb.RateLimitResponse_OVER_LIMIT
		response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
		if !f.result.Unknown {
			closest, least = i, 0
		}
	}
	if set.Headers && closest >= 0 {
		response.ResponseHeadersToAdd = c.headers(&c.found[closest], &statuses[closest])
	}
	if set.Shadow && response.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		response.OverallCode = pb.RateLimitResponse_OK
		c.service.counts.globalShadow.Add(1)
	}
	if set.Metadata {
		response.DynamicMetadata = c.metadata(request, violations)
	}
	return response
}

// resetIn is how many seconds the current window goes on. Other limits have
// no window; theirs is until the same hits could pass, or until all is back.
func (f *found) resetIn() int64 {
	if f.rule.limit.Algorithm == sluice.FixedWindow && !f.result.Unknown {
		period := int64(f.rule.limit.Period / time.Second)
		if f.rule.limit.Period%time.Second == 0 {
			return period - f.time.Unix()%period
		}
	}
	wait := f.result.ResetAfter
	if f.over && f.result.RetryAfter != sluice.Never {
		wait = f.result.RetryAfter
	}
	return int64((wait + time.Second - 1) / time.Second)
}

func (c *call) headers(f *found, st *pb.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	set := &c.service.settings
	return []*core.HeaderValue{
		{Key: set.LimitHeader, Value: strconv.FormatUint(uint64(f.rule.current.GetRequestsPerUnit()), 10)},
		{Key: set.RemainingHeader, Value: strconv.FormatUint(uint64(st.GetLimitRemaining()), 10)},
		{Key: set.ResetHeader, Value: strconv.FormatInt(f.resetIn(), 10)},
	}
}

// metadata is the request, and which of its descriptors were over a limit in
// quota mode.
func (c *call) metadata(request *pb.RateLimitRequest, violations []int) *structpb.Struct {
	descriptors := &structpb.ListValue{}
	for _, d := range request.GetDescriptors() {
		if d == nil {
			continue
		}
		entries := &structpb.ListValue{}
		for _, e := range d.GetEntries() {
			entries.Values = append(entries.Values, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
		}
		fields := map[string]*structpb.Value{"entries": structpb.NewListValue(entries)}
		if d.GetLimit() != nil {
			fields["limit"] = structpb.NewStringValue(fmt.Sprint(d.GetLimit()))
		}
		if d.GetHitsAddend() != nil {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(d.GetHitsAddend().GetValue()))
		}
		descriptors.Values = append(descriptors.Values, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(request.GetDomain()),
		"descriptors": structpb.NewListValue(descriptors),
	}
	if hits := request.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	if len(violations) > 0 {
		list := &structpb.ListValue{}
		for _, i := range violations {
			list.Values = append(list.Values, structpb.NewNumberValue(float64(i)))
		}
		fields["quotaModeViolations"] = structpb.NewListValue(list)
	}
	enabled := false
	for i := range c.found {
		if f := &c.found[i]; f.rule != nil && !f.unlimited && f.rule.quota {
			enabled = true
		}
	}
	fields["quotaModeEnabled"] = structpb.NewBoolValue(enabled)
	return &structpb.Struct{Fields: fields}
}
