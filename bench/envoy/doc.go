// Package envoy compares Sluice's service for Envoy with envoyproxy/ratelimit:
// the same random files and requests to both, and every answer compared; and
// how many decisions a second each makes on the same Redis.
package envoy
