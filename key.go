package sluice

import "strings"

// MaxKeyPart is the longest part of a [Key], in bytes.
const MaxKeyPart = 255

// Key names one bucket: Entity uses Resource under Limit, inside Namespace.
// The parts are kept apart all the way into the store, so no choice of
// separator lets one key pass for another. Any of them may be empty.
type Key struct {
	Namespace string `json:"namespace,omitempty"` // keeps entities apart from those of others
	Entity    string `json:"entity,omitempty"`    // who: a user, an API key, an address
	Resource  string `json:"resource,omitempty"`  // what: an endpoint, a model, an upstream
	Limit     string `json:"limit,omitempty"`     // which of the limits: "rpm", "tpm"
}

// String returns k for people and logs. It is not unique and cannot be parsed.
func (k Key) String() string {
	parts := make([]string, 0, 4)
	for _, p := range [...]string{k.Namespace, k.Entity, k.Resource, k.Limit} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

// long reports whether a part is: each length is below 256 when their union of
// bits is.
func (k *Key) long() bool {
	return len(k.Namespace)|len(k.Entity)|len(k.Resource)|len(k.Limit) > MaxKeyPart
}

func (k *Key) validate() error {
	if !k.long() {
		return nil
	}
	for _, p := range [...]struct{ field, value string }{
		{"namespace", k.Namespace}, {"entity", k.Entity}, {"resource", k.Resource}, {"limit", k.Limit},
	} {
		if len(p.value) > MaxKeyPart {
			return badField("key."+p.field, p.value[:32]+"…", "must be at most 255 bytes long")
		}
	}
	return nil
}
