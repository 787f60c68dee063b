package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/internal/excerpt"
)

// parseAddress reads [Config.Address].
func parseAddress(address string, config *tls.Config) (o rueidis.ClientOption, cluster bool, err error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return o, false, errors.New("it has no scheme: must be like redis://host:6379") // not quoted: it may have a password
	}
	secure, port := false, "6379"
	switch scheme {
	case "redis", "redis+sentinel", "redis+cluster":
	case "rediss", "rediss+sentinel", "rediss+cluster":
		secure = true
	default:
		return o, false, fmt.Errorf("%q is not a scheme: must be redis, redis+sentinel or redis+cluster, or with TLS rediss, rediss+sentinel or rediss+cluster", excerpt.Of(scheme))
	}
	_, mode, _ := strings.Cut(scheme, "+")
	if mode == "sentinel" {
		port = "26379"
	}
	// net/url knows one host only, so the list is taken out of its way.
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i+1], authority[i+1:]
	}
	u, err := url.Parse("redis://" + user + "host" + path)
	if err != nil {
		// Its message repeats the address, which may hold a password.
		return o, false, errors.New("user, password, path or query is not written as in a URL: escape special characters as % and two digits")
	}
	if o.InitAddress, err = parseHosts(hosts, port); err != nil {
		return o, false, err
	}
	if u.Fragment != "" {
		return o, false, fmt.Errorf("#%s does not belong into an address", u.Fragment)
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if secure {
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		o.TLSConfig = config
	} else if config != nil {
		return o, false, fmt.Errorf("TLS is configured, but %s does not use it: must be %s", scheme, strings.Replace(scheme, "redis", "rediss", 1))
	}
	switch mode {
	case "":
		err = parseSingle(&o, u)
	case "sentinel":
		err = parseSentinel(&o, u)
	case "cluster":
		err = parseCluster(u)
	}
	return o, mode == "cluster", err
}

func parseHosts(list, port string) ([]string, error) {
	var hosts []string
	for h := range strings.SplitSeq(list, ",") {
		if h == "" {
			return nil, errors.New("a host is missing: must be like redis://host:6379")
		}
		host, p, err := net.SplitHostPort(h)
		if err != nil { // most likely it has no port
			host, p = strings.Trim(h, "[]"), port
			if strings.Contains(host, ":") && !strings.HasPrefix(h, "[") {
				return nil, fmt.Errorf("host %q: must be like host:6379, or [::1]:6379 for IPv6", excerpt.Of(h))
			}
		}
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("host %q: the port must be 1 to 65535", excerpt.Of(h))
		}
		if host == "" {
			host = "127.0.0.1"
		}
		hosts = append(hosts, net.JoinHostPort(host, p))
	}
	return hosts, nil
}

func parseSingle(o *rueidis.ClientOption, u *url.URL) error {
	if len(o.InitAddress) > 1 {
		return errors.New("redis:// has one host: for several use redis+cluster:// or redis+sentinel://")
	}
	o.ForceSingleClient = true
	if err := checkQuery(u, "db"); err != nil {
		return err
	}
	db := strings.TrimPrefix(u.Path, "/")
	if q := u.Query().Get("db"); q != "" {
		if db != "" {
			return errors.New("the database is given twice, as path and as ?db")
		}
		db = q
	}
	return parseDB(o, db)
}

func parseSentinel(o *rueidis.ClientOption, u *url.URL) error {
	master := strings.TrimPrefix(u.Path, "/")
	if master == "" || strings.Contains(master, "/") {
		return errors.New("the name of the master is missing: must be like redis+sentinel://host1,host2,host3/mymaster")
	}
	if err := checkQuery(u, "db", "sentinel_username", "sentinel_password"); err != nil {
		return err
	}
	q := u.Query()
	o.Sentinel = rueidis.SentinelOption{
		MasterSet: master,
		Username:  q.Get("sentinel_username"),
		Password:  q.Get("sentinel_password"),
		TLSConfig: o.TLSConfig,
		// An announcement of a new master may get lost.
		TopologyRefreshInterval: 2 * time.Second,
	}
	return parseDB(o, q.Get("db"))
}

func parseCluster(u *url.URL) error {
	if p := strings.TrimPrefix(u.Path, "/"); p != "" && p != "0" {
		return fmt.Errorf("a cluster has no database %q", excerpt.Of(p))
	}
	return checkQuery(u)
}

func parseDB(o *rueidis.ClientOption, db string) error {
	if db == "" {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 16)
	if err != nil {
		return fmt.Errorf("database %q: must be a number", excerpt.Of(db))
	}
	o.SelectDB = int(n)
	return nil
}

// checkQuery says if u asks for something that does not exist.
func checkQuery(u *url.URL, known ...string) error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("the query is not written as in a URL")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return fmt.Errorf("?%s is not known here", excerpt.Of(name))
			}
			return fmt.Errorf("?%s is not known here: must be one of %s", excerpt.Of(name), strings.Join(known, ", "))
		}
		if len(values) > 1 {
			return fmt.Errorf("?%s is given more than once", name)
		}
	}
	return nil
}
