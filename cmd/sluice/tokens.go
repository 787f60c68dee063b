package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/server"
)

// readTokens reads the file of --tokens, if there is one, into a's list.
func (l *listening) readTokens(a *server.Access) error {
	if l.tokens == "" {
		return nil
	}
	tokens, err := readTokens(l.tokens)
	if err != nil {
		return err
	}
	if a.Named == nil {
		a.Named = new(server.TokenList)
	}
	return a.Named.Set(tokens)
}

// readTokens reads a file that says who may do what, by name. One without names
// is a mistake: nobody could get in to mend it.
func readTokens(path string) ([]server.Token, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--tokens: %w", err)
	}
	var named map[string]struct{ Role, Secret string }
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&named); err != nil {
		return nil, fmt.Errorf("--tokens: %s: want lines such as \"alice: {role: admin, secret: …}\"", path) // what it says may quote a secret
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("--tokens: %s: names nobody", path)
	}
	var all []server.Token
	whose := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		t := named[name]
		role, known := map[string]server.Role{"read": server.RoleRead, "service": server.RoleService, "admin": server.RoleAdmin}[t.Role]
		if !known {
			return nil, fmt.Errorf("--tokens: %s: %s: role %q: want read, service or admin", path, name, t.Role)
		}
		if len(t.Secret) < server.MinSecret {
			return nil, fmt.Errorf("--tokens: %s: %s: the secret must be at least %d bytes long", path, name, server.MinSecret)
		}
		if other, taken := whose[t.Secret]; taken {
			return nil, fmt.Errorf("--tokens: %s: %s and %s have the same secret, so nobody could tell them apart", path, other, name)
		}
		whose[t.Secret] = name
		all = append(all, server.Token{Name: name, Secret: t.Secret, Role: role})
	}
	return all, nil
}

// access is who may do what. A server that stands in for envoyproxy/ratelimit
// starts as that does, with the HTTP API closed until somebody is named.
func (f *serveFlags) access(standsIn bool) (server.Access, error) {
	var a server.Access
	for _, t := range []struct {
		value, name string
		role        server.Role
	}{{f.adminToken, "admin-token", server.RoleAdmin}, {f.serviceToken, "service-token", server.RoleService}} {
		if t.value == "" {
			continue
		}
		s, err := secret(t.value)
		if err != nil {
			return a, err
		}
		if len(s) < server.MinSecret {
			return a, fmt.Errorf("serve: --%s: must be at least %d bytes long", t.name, server.MinSecret)
		}
		a.Tokens = append(a.Tokens, server.Token{Name: strings.ReplaceAll(t.name, "-", " "), Secret: s, Role: t.role})
	}
	if err := f.readTokens(&a); err != nil {
		return a, err
	}
	if f.clientCA != "" {
		a.Certificates = server.RoleAdmin
	}
	if len(a.Tokens) == 0 && a.Named == nil && f.clientCA == "" {
		switch {
		case loopback(f.listen):
			a.Open = true
		case !standsIn:
			return a, fmt.Errorf("serve: --listen %s is reachable from other machines: name who may use it, with --tokens, --admin-token or --tls-client-ca", f.listen)
		}
	}
	if f.admin != "" && !standsIn && !loopback(f.admin) && len(a.Tokens) == 0 && a.Named == nil && f.clientCA == "" {
		return a, fmt.Errorf("serve: --admin-listen %s is reachable from other machines, and nobody could read metrics there: name who may, with --tokens, --admin-token or --tls-client-ca", f.admin)
	}
	if f.envoy != "" && !standsIn && f.clientCA == "" && !loopback(f.grpc) {
		return a, fmt.Errorf("serve: --grpc-listen %s is reachable from other machines: name who may use it, with --tls-client-ca", f.grpc)
	}
	return a, nil
}
