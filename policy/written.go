package policy

import (
	_ "embed" // zones.txt
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/excerpt"
	"go.yaml.in/yaml/v3"
)

// This file has the types that can be written in more than one way.

const unlimited = "unlimited"

func (v *Numbers) decodeNode(d *decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		d.entries(path, n, func(name, at string, value *yaml.Node) {
			d.values[at] = position{value.Line, value.Column}
			if !isName(name) {
				d.addKey(at, name, nil, "%q is not a name of a limit: expected 1 to 64 letters, digits, - and _", excerpt.Of(name))
			}
			if l, ok := d.limit(at, value); ok {
				v.Limits = append(v.Limits, NamedLimit{name, l})
			}
		})
		if len(n.Content) == 0 {
			d.add(path, "has no limits: expected a limit such as 100/minute, limits by name, or %s", unlimited)
		}
		return
	}
	if n.Kind == yaml.ScalarNode && n.Value == unlimited {
		v.Unlimited = true
		return
	}
	if l, ok := d.limit(path, n); ok {
		v.Limits = []NamedLimit{{catalog.DefaultLimit, l}}
	}
}

func (d *decoder) limit(path string, n *yaml.Node) (sluice.Limit, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	text, ok := d.scalar(path, n, `a limit such as "100/minute" or "10/s burst 20"`)
	if !ok {
		return sluice.Limit{}, false
	}
	l, err := sluice.Parse(text)
	if err != nil {
		d.put(d.at(path), path, nearestLimit(text), err.Error())
	}
	return l, err == nil
}

// nearestLimit is what may have been meant by a limit that is not one.
func nearestLimit(text string) string {
	if amount, rest, ok := strings.Cut(text, "/"); ok {
		period, more, spaced := strings.Cut(rest, " ")
		if zone := nearestZone(more); spaced && zone != "" {
			fixed := amount + "/" + period + " " + zone
			if _, err := sluice.Parse(fixed); err == nil {
				return fixed
			}
		}
		digits := len(period) - len(strings.TrimLeft(period, "0123456789"))
		unit := nearest(period[digits:], []string{"second", "minute", "hour", "day", "week", "month UTC"})
		if fixed := amount + "/" + period[:digits] + unit; unit != "" {
			if spaced {
				fixed += " " + more
			}
			if _, err := sluice.Parse(fixed); err == nil {
				return fixed
			}
		}
		return ""
	}
	return nearest(text, []string{unlimited})
}

//go:embed zones.txt
var zoneNames string

// nearestZone is the time zone that may have been meant: by a name, or by that of
// a city alone.
func nearestZone(name string) string {
	zones := strings.Fields(zoneNames)
	if zone := nearest(name, zones); zone != "" {
		return zone
	}
	for _, zone := range zones {
		if strings.EqualFold(strings.ReplaceAll(name, " ", "_"), path.Base(zone)) {
			return zone
		}
	}
	return ""
}

func (*Numbers) schema() schema {
	return oneOf(limitSchema, constant(unlimited), schema{"type": "object", "additionalProperties": limitSchema, "minProperties": 1})
}

func (c *costs) decodeNode(d *decoder, path string, n *yaml.Node) {
	c.rule = sluice.Token
	if n.Kind != yaml.MappingNode {
		if cost, ok := d.cost(path, n); ok {
			c.rule = cost
		}
		return
	}
	d.entries(path, n, func(name, at string, value *yaml.Node) {
		d.values[at] = position{value.Line, value.Column}
		if cost, ok := d.cost(at, value); ok {
			c.named = append(c.named, limitCost{Limit: name, Cost: sluice.Thousandths(cost)})
		}
	})
}

func (d *decoder) cost(path string, n *yaml.Node) (int64, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	text, ok := d.scalar(path, n, "a number of tokens")
	if !ok {
		return 0, false
	}
	var t sluice.Amount
	if err := t.UnmarshalJSON([]byte(text)); err != nil {
		d.add(path, "%v", err)
		return 0, false
	}
	if t.Thousandths() <= 0 {
		d.add(path, "is %s, and a cost above 0 was expected; to make a request free, put it under exempt", t)
		return 0, false
	}
	return t.Thousandths(), true
}

func (*costs) schema() schema {
	return oneOf(costSchema, schema{"type": "object", "additionalProperties": costSchema})
}

var unavailableWords = map[string]sluice.OnUnavailable{"degrade": sluice.Degrade, "deny": sluice.Deny, "allow": sluice.Allow}

const unavailableEnum = "allow,deny,degrade"

func (u *Unavailable) decodeNode(d *decoder, path string, n *yaml.Node) {
	var words struct {
		Read  string `yaml:"read" enum:"allow,deny,degrade"`
		Write string `yaml:"write" enum:"allow,deny,degrade"`
	}
	into := reflect.ValueOf(&words).Elem()
	if n.Kind == yaml.MappingNode {
		d.decodeStruct(path, n, into)
	} else {
		d.decodeScalar(path, n, into.Field(0), `enum:"`+unavailableEnum+`"`)
		words.Write = words.Read
	}
	u.Read, u.Write = unavailableWords[words.Read], unavailableWords[words.Write]
}

func (*Unavailable) schema() schema {
	word := schema{"enum": strings.Split(unavailableEnum, ",")}
	return oneOf(word, schema{"type": "object", "additionalProperties": false, "properties": schema{"read": word, "write": word}})
}

func (p *Pattern) decodeNode(d *decoder, path string, n *yaml.Node) {
	text, ok := d.scalar(path, n, "a pattern such as POST /api/search")
	if !ok {
		return
	}
	parsed, err := parsePattern(text)
	if err != nil {
		d.add(path, "%q: %v", excerpt.Of(text), err)
		return
	}
	*p = parsed
}

func (*Pattern) schema() schema {
	return schema{"type": "string", "pattern": `^([A-Za-z0-9_-]+ +)?/[^?# ]*$`, "examples": []string{"POST /api/search", "/api/users/{id}", "/api/**"}}
}

func (v *Quota) decodeNode(d *decoder, path string, n *yaml.Node) {
	v.Cost = 1
	if n.Kind == yaml.MappingNode {
		d.decodeStruct(path, n, reflect.ValueOf(v).Elem())
		return
	}
	v.Limit, _ = d.limit(path, n)
}

func (v *Quota) schema() schema { return oneOf(limitSchema, structSchema(reflect.TypeOf(*v), "")) }

var byteUnits = map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9}

func (v *Bytes) decodeNode(d *decoder, path string, n *yaml.Node) {
	text, ok := d.scalar(path, n, "a size such as 64KiB")
	if !ok {
		return
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	number, err := strconv.ParseInt(text[:digits], 10, 32)
	unit, known := byteUnits[strings.TrimSpace(text[digits:])]
	if err != nil || !known {
		d.add(path, "%q is not a size: expected a number of bytes, or one with a unit such as 64KiB or 1MiB", excerpt.Of(text))
		return
	}
	*v = Bytes(number * unit)
}

func (*Bytes) schema() schema {
	return oneOf(schema{"type": "integer", "minimum": 0}, schema{"type": "string", "pattern": `^[0-9]+ *(B|kB|KiB|MB|MiB|GB|GiB)?$`})
}
