// Package tracing follows a request: by its id through the log, and by its
// spans through a tracing system that understands OpenTelemetry.
//
// [RequestIDs] gives every HTTP request an id, [LogHandler] writes it on every
// line that is logged with the request's context, and [AccessLog] logs the
// requests themselves.
//
// [Open] begins to send spans over OTLP, if it is told where to. What it
// returns wraps HTTP handlers, gRPC servers and stores. If it is told nothing
// it returns nil, and a nil [Tracing] wraps nothing: everything stays as it
// was, and costs as little.
package tracing
