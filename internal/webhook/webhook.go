// Package webhook signs calls as Standard Webhooks says, and keeps them away from
// addresses that are not public.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Key is the key that a secret means: base64 after whsec_, or its own bytes.
func Key(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) == 0 {
		return nil, errors.New("want base64 after whsec_")
	}
	return key, nil
}

// Sign sets the headers that say which message it is, when it is sent and, with a
// signature for each key, by whom.
func Sign(h http.Header, id string, now time.Time, body []byte, keys ...[]byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body) //nolint:errcheck // it never fails
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if len(signatures) > 0 {
		h.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
}

// ErrPrivate is wrapped by the error about an address that is not public.
var ErrPrivate = errors.New("the address is not public")

// Public is a [net.Dialer.Control] that refuses addresses that are not public. It
// sees what a name was resolved to, so no answer of a name server gets past it.
func Public(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := at.Addr(); !public(ip) {
		return fmt.Errorf("%s: %w", ip, ErrPrivate)
	}
	return nil
}

// public reports whether an address belongs to the internet at large. Those that
// lead to an IPv4 address are judged by that.
func public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if translated.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if ip.Is6() && !global.Contains(ip) {
		return false
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

var (
	translated = netip.MustParsePrefix("64:ff9b::/96") // NAT64
	global     = netip.MustParsePrefix("2000::/3")

	// special are what looks public and is not.
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"),    // shared by providers
		netip.MustParsePrefix("168.63.129.16/32"), // metadata of Azure
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("192.88.99.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("2001::/23"), // with Teredo
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("2002::/16"), // 6to4
		netip.MustParsePrefix("3fff::/20"),
	}
)
