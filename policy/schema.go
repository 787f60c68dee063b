package policy

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// schema is a part of a JSON Schema.
type schema map[string]any

// Schema returns a JSON Schema of the policy file, for editors: they complete keys
// and show what they are for. A file that it accepts can still have mistakes
// that only [Parse] finds.
func Schema() []byte {
	s := structSchema(reflect.TypeFor[document](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Sluice policy"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // made of maps, lists and texts
	}
	return append(b, '\n')
}

var (
	limitSchema = schema{"type": "string", "description": `A limit such as "100/minute", "10/s burst 20", "100/minute sliding", "50000/month UTC" or "5 concurrent".`,
		"examples": []string{"100/minute", "10/s burst 20", "100/minute sliding", "1000/day Europe/Madrid", "5 concurrent"}}
	costSchema     = oneOf(schema{"type": "number", "exclusiveMinimum": 0}, schema{"type": "string", "pattern": `^[0-9][0-9_]*(\.[0-9]{1,3})?[kM]?$`})
	durationSchema = schema{"type": "string", "pattern": `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`, "examples": []string{"30s", "15m", "24h", "7d"}}
)

func oneOf(schemas ...schema) schema { return schema{"anyOf": schemas} }

func constant(s string) schema { return schema{"const": s} }

// structSchema describes a map with fixed keys. Parts of the file that belong
// to other packages have no doc tags, so their descriptions are in a table.
func structSchema(t reflect.Type, path string) schema {
	properties := schema{}
	var required []string
	for _, f := range fieldsOf(t) {
		at := join(path, f.name)
		s := valueSchema(t.Field(f.index).Type, f.tag, at)
		doc := f.tag.Get("doc")
		if doc == "" {
			doc = elsewhere[at]
		}
		if doc != "" {
			described := schema{"description": doc}
			for k, v := range s {
				if k != "description" {
					described[k] = v
				}
			}
			s = described
		}
		properties[f.name] = s
		if f.required {
			required = append(required, f.name)
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func valueSchema(t reflect.Type, tag reflect.StructTag, path string) schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := reflect.New(t).Interface().(type) {
	case nodeDecoder:
		return v.schema()
	case growing:
		return schema{"type": []string{"object", "null"}, "additionalProperties": valueSchema(reflect.TypeOf(v.element()).Elem(), tag, path+".*")}
	case *time.Duration:
		return durationSchema
	case *time.Time:
		return schema{"type": "string", "format": "date-time"}
	case encoding.TextUnmarshaler:
		return limitSchema
	}
	switch t.Kind() {
	case reflect.Struct:
		s := structSchema(t, path)
		s["type"] = []string{"object", "null"}
		return s
	case reflect.Slice:
		item := valueSchema(t.Elem(), tag, path+".*")
		list := schema{"type": "array", "items": item}
		if t.Elem().Kind() == reflect.Struct && item["properties"] != nil {
			return list
		}
		return oneOf(item, list)
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": valueSchema(t.Elem(), "", path+".*")}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return bounded(schema{"type": "integer"}, tag)
	case reflect.Float64:
		return bounded(schema{"type": "number"}, tag)
	}
	return textSchema(tag)
}

func textSchema(tag reflect.StructTag) schema {
	if enum := tag.Get("enum"); enum != "" {
		return schema{"enum": strings.Split(enum, ",")}
	}
	switch tag.Get("check") {
	case "name":
		return schema{"type": "string", "pattern": `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`}
	case "per":
		return schema{"type": "string", "pattern": `^(caller|key|user|ip|everyone|(header|claim):.+)$`,
			"examples": []string{"caller", "key", "user", "ip", "everyone", "header:X-Tenant-ID", "claim:org"}}
	case "scope":
		return schema{"type": "string", "pattern": `^(namespace|entity|key|(header|claim):.+)$`,
			"examples": []string{"namespace", "entity", "key", "header:X-Tenant-ID", "claim:org"}}
	case "link":
		return schema{"type": "string", "format": "uri-reference"}
	}
	return schema{"type": "string"}
}

func bounded(s schema, tag reflect.StructTag) schema {
	for key, name := range map[string]string{"minimum": "min", "maximum": "max"} {
		if n, err := strconv.ParseFloat(tag.Get(name), 64); err == nil {
			s[key] = n
		}
	}
	return s
}

// elsewhere describes settings whose types are in package identity.
var elsewhere = map[string]string{
	"identity.key_headers":             "Where an API key may stand, in order; in Authorization it follows Bearer. Default: X-API-Key and Authorization.",
	"identity.keys":                    "API keys known from here. A catalog may know more.",
	"identity.keys.*.name":             "How the key is called in buckets, logs and metrics.",
	"identity.keys.*.sha256":           "The SHA-256 hash of the key in hexadecimal: printf %s KEY | sha256sum",
	"identity.keys.*.entity":           "Whose key it is. Default: the key stands for itself.",
	"identity.keys.*.tier":             "The plan of whoever has the key.",
	"identity.keys.*.scopes":           "What its holder may do, for endpoints that demand scopes.",
	"identity.keys.*.expires":          "When it stops being valid. Default: never.",
	"identity.key_cookies":             "Cookies whose values are API keys, such as sessions that the catalog knows. A key in a header goes before them.",
	"identity.jwt.cookie":              "A cookie that may have the token. A token in the header goes before it.",
	"identity.jwt":                     "Signed tokens that are accepted.",
	"identity.jwt.header":              "Where the token stands. Default: Authorization, after Bearer.",
	"identity.jwt.algorithms":          "What may sign: HS256, HS384, HS512 with a secret; RS, PS, ES and EdDSA with public keys.",
	"identity.jwt.secret_file":         "A file with the shared secret.",
	"identity.jwt.public_key_file":     "A PEM file with one public key.",
	"identity.jwt.jwks_file":           "A file with a JSON Web Key Set.",
	"identity.jwt.jwks_url":            "Where to fetch a JSON Web Key Set.",
	"identity.jwt.issuer":              "Who must have issued the token. Default: anyone.",
	"identity.jwt.audience":            "The token must be meant for one of these. Default: anyone.",
	"identity.jwt.leeway":              "By how much clocks may differ.",
	"identity.jwt.subject_claim":       "The claim that names the user. Default: sub.",
	"identity.jwt.tier_claim":          "The claim that names the plan. Default: tier.",
	"identity.jwt.scope_claim":         "The claim with the scopes, as a list or divided by spaces. Default: scope.",
	"identity.address":                 "How a caller's address is found and grouped.",
	"identity.address.trusted_proxies": "Networks whose word on a client's address is taken. Default: none.",
	"identity.address.header":          "The header that they write: X-Forwarded-For (default), Forwarded or X-Real-IP.",
	"identity.address.ipv4_prefix":     "How many bits of an IPv4 address are one caller. Default: 32.",
	"identity.address.ipv6_prefix":     "How many bits of an IPv6 address are one caller. Default: 64.",
}
