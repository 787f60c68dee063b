package dynamodb

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

func TestOutcomes(t *testing.T) {
	sent := progress{signed: true, written: true}
	code := func(code string) error {
		return &smithy.OperationError{Err: &smithy.GenericAPIError{Code: code}}
	}
	cancelled := func(codes ...string) error {
		e := &types.TransactionCanceledException{}
		for _, c := range codes {
			e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(c)})
		}
		return &smithy.OperationError{Err: e}
	}
	for _, test := range []struct {
		name string
		err  error
		got  progress
		want outcome
	}{
		{"no credentials", errors.New("no EC2 IMDS role found"), progress{}, forbidden},
		{"no connection", errors.New("connection refused"), progress{signed: true}, notYet},
		{"time-out before a connection", context.DeadlineExceeded, progress{signed: true}, notYet},
		{"time-out", context.DeadlineExceeded, sent, unknown},
		{"connection cut", errors.New("EOF"), sent, unknown},
		{"answer that makes no sense", &smithy.DeserializationError{Err: errors.New("not JSON")}, sent, unknown},
		{"condition", &types.ConditionalCheckFailedException{}, sent, changed},
		{"conflict", &types.TransactionConflictException{}, sent, notYet},
		{"throttled", &types.ProvisionedThroughputExceededException{}, sent, notYet},
		{"throttled", code("ThrottlingException"), sent, notYet},
		{"no table", &types.ResourceNotFoundException{}, sent, forbidden},
		{"item too large", code("ValidationException"), sent, forbidden},
		{"not allowed", code("AccessDeniedException"), sent, forbidden},
		{"500", &types.InternalServerError{}, sent, unknown},
		{"503", code("ServiceUnavailable"), sent, unknown},
		{"in progress", &types.TransactionInProgressException{}, sent, unknown},
		{"never heard of", code("NewException"), sent, unknown},
		{"transaction: condition", cancelled("None", "ConditionalCheckFailed"), sent, changed},
		{"transaction: conflict", cancelled("TransactionConflict", "None"), sent, changed},
		{"transaction: throttled", cancelled("ConditionalCheckFailed", "ThrottlingError"), sent, notYet},
		{"transaction: too large", cancelled("ValidationError", "ThrottlingError"), sent, forbidden},
		{"transaction: never heard of", cancelled("NewReason"), sent, changed},
		{"transaction: no reasons", cancelled(), sent, changed},
	} {
		if got := judge(test.err, &test.got); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
