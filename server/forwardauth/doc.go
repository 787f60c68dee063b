// Package forwardauth lets a proxy ask before it passes a request on: nginx
// with auth_request, Caddy with forward_auth, Traefik with ForwardAuth.
//
// The proxy sends the request's headers without its body, and tells of the
// request in headers of its own:
//
//	X-Forwarded-Method, X-Forwarded-Uri   what is asked for
//	X-Forwarded-For                       by whom, as far as the policy trusts the proxy
//
// A gate decides by its policy, as if the request had come here. 200 lets it
// pass; anything else is the answer for the client, with Retry-After and a
// body that names the limit. What a request takes is settled with the answer:
// there is no lease, as nobody tells when the request ends.
//
// nginx takes every answer but 2xx, 401 and 403 for a failure, and shows a
// 500. Asked with ?status=403, refusals are 403, and X-Sluice-Status has the
// status that the client is to see. docs/forward-auth.md has a configuration
// for each proxy, which the tests run.
package forwardauth
