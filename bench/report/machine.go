package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine describes where and when the figures were taken, and how busy the
// machine was with other things. Call it before measuring.
func Machine(now time.Time) string {
	return fmt.Sprintf("%s, %d cores, %s, %s/%s, %s; load average before the run: %s.",
		cpu(), runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH, now.Format(time.DateOnly), load())
}

// load is how many processes wanted a core in the last minute.
func load() string {
	averages, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(averages), " ")
	return minute
}

// cpu is the processor's name where the system tells it.
func cpu() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if field, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(field) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Count writes n with a unit that people read: 950, 12.3 k, 4.56 M.
func Count(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3g G", n/1e9)
	case n >= 999_500:
		return fmt.Sprintf("%.3g M", n/1e6)
	case n >= 1000:
		return fmt.Sprintf("%.3g k", n/1e3)
	}
	return fmt.Sprintf("%.3g", n)
}
