// Package server lets other programs ask a limiter over HTTP.
//
//	GET  /healthz   200 while the server runs
//	POST /v1/take   200 if the take was allowed, 429 if it was refused
//
// A take names who uses what, and may bring its cost and its limits:
//
//	{"entity": "alice", "resource": "api", "cost": 1, "limits": {"rpm": "100/minute"}}
//
// Only entity must be given. Without limits those of the server apply, and
// "peek": true consumes nothing. Both answers have the same body; requests
// that make no sense get an application/problem+json body that names the
// field.
//
// Whoever can reach the address can take, with any limits: the server has no
// access control, so it belongs on a loopback interface or a private network.
package server
