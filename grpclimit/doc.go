// Package grpclimit puts a policy's limits on gRPC services: interceptors for
// unary calls and streams. [PerIP], [PerKey] and [Per] put one limit on a
// server, in one line.
//
// A call is the HTTP request that it is: POST /package.Service/Method. Limits,
// costs, keys, tokens and addresses are found as package httplimit finds
// them, in the call's metadata. A refusal is RESOURCE_EXHAUSTED with RetryInfo,
// QuotaFailure and ErrorInfo, and the headers that HTTP responses carry are in
// the metadata.
package grpclimit
