package world
import ("testing";"time";"fmt";"os")
func TestZZ(t *testing.T) {
	if os.Getenv("ZZ")=="" {t.Skip()}
	for seed := uint64(1); seed < 41; seed++ {
		s := time.Now()
		p:=NewPlan(seed)
		r := play(t, p, true)
		last := r.lines[len(r.lines)-1].at
		fmt.Println(seed, time.Since(s).Round(time.Millisecond), last.Round(time.Second), p.Length, p.Nodes, r.Told, r.Effects, len(r.lines), p.Faults)
	}
}
