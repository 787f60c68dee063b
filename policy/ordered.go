package policy

import "iter"

// ordered is a map that remembers the order of the file, so that mistakes,
// results and everything derived from it come in that order.
type ordered[T any] struct {
	keys   []string
	values map[string]*T
}

func (o *ordered[T]) get(key string) *T { return o.values[key] }

func (o *ordered[T]) len() int { return len(o.keys) }

func (o *ordered[T]) all() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for _, k := range o.keys {
			if !yield(k, o.values[k]) {
				return
			}
		}
	}
}

// add makes room for a new key; the decoder fills it in.
func (o *ordered[T]) add(key string) any {
	if o.values == nil {
		o.values = map[string]*T{}
	}
	v := new(T)
	o.keys = append(o.keys, key)
	o.values[key] = v
	return v
}

// element is what a value is made of, for the schema.
func (o *ordered[T]) element() any { return new(T) }
