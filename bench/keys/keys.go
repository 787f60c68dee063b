// Package keys makes the keys that contenders are asked about. Every
// contender gets the same keys in the same order.
package keys

import "math/rand/v2"

// Length is how many characters each key has.
const Length = 24

// Sequence is keys in the order they are asked for, packed one behind the
// other. Packing them keeps the harness out of the measurement: the keys come
// from memory in order, as those of a request just read do, and the collector
// has nothing to scan. Two occurrences of a key have different addresses, as
// they have in life, so no map finds them equal without comparing.
type Sequence string

// Len is the number of keys.
func (s Sequence) Len() int { return len(s) / Length }

// At is key number i.
func (s Sequence) At(i int) string { return string(s[i*Length : (i+1)*Length]) }

// Text is the key of that number, in memory of its own.
func Text(number int) string { return string(appendText(nil, number)) }

func appendText(b []byte, number int) []byte {
	text := [Length]byte{'k', 'e', 'y', '-'}
	for i, n := Length-1, mix(uint64(number)); i >= 4; i, n = i-1, n/10 {
		text[i] = '0' + byte(n%10)
	}
	return append(b, text[:]...)
}

// mix is the finalizer of splitmix64. It maps numbers one to one, so that keys
// differ as much as real ones do, and none is lost.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// All is keys 0 to n-1, each once.
func All(n int) Sequence {
	next := 0
	return sequence(n, func() int { next++; return next - 1 })
}

// Uniform is length draws among n keys, each as likely as any other.
func Uniform(n, length int, seed uint64) Sequence {
	r := rand.New(rand.NewPCG(seed, 1))
	return sequence(length, func() int { return r.IntN(n) })
}

// Skew is the exponent of [Zipf]: the hottest of a million keys gets about a
// tenth of the traffic.
const Skew = 1.07

// Zipf is length draws among n keys, a few of them hot. Which keys are hot has
// nothing to do with their numbers, and so with the order in which a limiter
// came to know them: hot keys that lie side by side in memory would flatter
// limiters that allocate in that order.
func Zipf(n, length int, seed uint64) Sequence {
	const prime = 2_654_435_761 // above any n, so multiplying by it permutes the numbers
	z := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), Skew, 1, uint64(n-1))
	return sequence(length, func() int { return int(z.Uint64() * prime % uint64(n)) })
}

// Each makes one sequence for each caller.
func Each(callers int, draw func(seed uint64) Sequence) []Sequence {
	var all []Sequence
	for i := range callers {
		all = append(all, draw(uint64(i)+1))
	}
	return all
}

func sequence(length int, draw func() int) Sequence {
	b := make([]byte, 0, length*Length)
	for range length {
		b = appendText(b, draw())
	}
	return Sequence(b)
}
