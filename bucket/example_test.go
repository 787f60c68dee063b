package bucket_test

import (
	"fmt"
	"log"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// A store looks at a bucket, and writes only if it takes.
func ExampleSpec() {
	spec, err := bucket.Compile(sluice.MustParse("10/s burst 20"))
	if err != nil {
		log.Fatal(err)
	}
	var state bucket.State // absent means full
	now := int64(1_893_456_000_000_000)
	for _, cost := range []int64{15_000, 15_000} { // millitokens
		v := spec.View(&state, now)
		if cost <= v.Available() {
			spec.Take(&state, v, cost)
			fmt.Println("taken")
		} else {
			fmt.Println("refused; could pass in", spec.RetryIn(&state, v, cost), "µs")
		}
	}
	// Output:
	// taken
	// refused; could pass in 1000000 µs
}
