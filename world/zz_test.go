package world

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestZF(t *testing.T) {
	for _, a := range os.Args {
		if n, err := strconv.Atoi(a); err == nil {
			p := NewPlan(uint64(n))
			fmt.Println(n, p.Nodes, p.Faults)
			for _, b := range p.Buckets {
				fmt.Printf("   %+v\n", b)
			}
		}
	}
}
