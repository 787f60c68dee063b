// Package gateway is a reverse proxy that limits: it puts a policy in front
// of an API that knows nothing of it.
//
// Streams, server-sent events, WebSockets, trailers and HTTP/2 pass through
// as they are. What the proxy adds is an address to trust (X-Forwarded-For),
// a request id, bounds on sizes and times, and an end without broken
// requests.
package gateway
