package dynamodb

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/sluice-go/sluice/internal/excerpt"
)

// address is what [Config.Address] says.
type address struct {
	table    string
	region   string // "" for that of the environment
	endpoint string // "" for that of the region
}

var (
	tableName  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// parseAddress reads [Config.Address].
func parseAddress(text string) (a address, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "dynamodb" {
		return a, fmt.Errorf("%q: must be like dynamodb://table?region=eu-west-1", excerpt.Of(text))
	}
	if u.User != nil || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return a, errors.New("must be like dynamodb://table?region=eu-west-1: credentials come from the environment of the AWS SDK")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, errors.New("its query is not written as in a URL")
	}
	for name, values := range query {
		if !slices.Contains([]string{"region", "endpoint"}, name) || len(values) != 1 {
			return a, fmt.Errorf("?%s: must be region or endpoint, once", excerpt.Of(name))
		}
	}
	a = address{table: u.Host, region: query.Get("region"), endpoint: query.Get("endpoint")}
	if a.table != "" && !tableName.MatchString(a.table) {
		return a, fmt.Errorf("table %q: must be 3 to 255 letters, digits, dots, dashes and underscores", excerpt.Of(a.table))
	}
	if query.Has("region") && !regionName.MatchString(a.region) {
		return a, fmt.Errorf("region %q: must be like eu-west-1", excerpt.Of(a.region))
	}
	if query.Has("endpoint") {
		if e, err := url.Parse(a.endpoint); err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil {
			return a, fmt.Errorf("endpoint %q: must be like http://127.0.0.1:8000", excerpt.Of(a.endpoint))
		}
	}
	return a, nil
}
