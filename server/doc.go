// Package server lets other programs ask a limiter over HTTP, and change what
// is stored about limits.
//
//	POST /v1/take            200 if the take was allowed, 429 if it was refused
//	POST /v1/leases          the same for work whose cost is known afterwards
//	GET  /v1/status/…        how somebody stands
//	PUT  /v1/limits/…        stored limits, and the rest of the catalog
//	GET  /v1/openapi.yaml    all of them
//
// A take names who uses what, and may bring its cost and its limits:
//
//	{"entity": "alice", "resource": "api", "cost": 1, "limits": {"rpm": "100/minute"}}
//
// Only entity must be given. Without limits those of the catalog apply, and
// "peek": true consumes nothing. Both answers have the same body; requests
// that make no sense get an application/problem+json body that names the
// field.
//
// Who may do what is up to [Access]; without any, nobody may do anything.
// Package client asks such a server from Go.
package server
