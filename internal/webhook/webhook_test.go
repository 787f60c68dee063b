package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/webhook"
)

func TestOnlyPublicAddressesAreCalled(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": false, "10.1.2.3:1": false, "172.16.0.1:1": false, "192.168.0.1:1": false, "169.254.169.254:80": false, "100.64.1.1:1": false,
		"100.100.100.200:80": false, "168.63.129.16:80": false, "0.0.0.0:1": false, "0.1.2.3:1": false, "224.0.0.1:1": false,
		"255.255.255.255:1": false, "240.0.0.1:1": false, "192.0.0.192:1": false, "198.18.0.1:1": false,
		"[::]:1": false, "[::1]:1": false, "[fe80::1]:1": false, "[fe80::1%eth0]:1": false, "[fd00::1]:1": false, "[fd00:ec2::254]:80": false,
		"[ff02::1]:1": false, "[::ffff:10.0.0.1]:1": false, "[::ffff:127.0.0.1]:1": false, "[::127.0.0.1]:1": false,
		"[64:ff9b::a9fe:a9fe]:80": false, "[64:ff9b:1::a00:1]:1": false, "[2002:7f00:1::]:1": false, "[2001::1]:1": false,
		"93.184.216.34:443": true, "[2606:2800:220:1::1]:443": true, "[::ffff:93.184.216.34]:443": true, "[64:ff9b::5db8:d822]:443": true,
	} {
		if got := webhook.Public("tcp", address, nil) == nil; got != want {
			t.Errorf("%s: allowed %t, want %t", address, got, want)
		}
	}
}

func TestEveryKeySigns(t *testing.T) {
	one, err := webhook.Key("plain")
	if err != nil {
		t.Fatal(err)
	}
	two, err := webhook.Key("whsec_" + base64.StdEncoding.EncodeToString([]byte("other")))
	if err != nil || string(two) != "other" {
		t.Fatalf("%q, %v", two, err)
	}
	if _, err := webhook.Key("whsec_!"); err == nil {
		t.Error("no base64, and no error")
	}
	h := http.Header{}
	webhook.Sign(h, "id", time.Unix(5, 9), []byte("body"), one, two)
	want := ""
	for _, key := range []string{"plain", "other"} {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte("id.5.body"))
		want += " v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	if h.Get("Webhook-Id") != "id" || h.Get("Webhook-Timestamp") != "5" || " "+h.Get("Webhook-Signature") != want {
		t.Errorf("%v, want%s", h, want)
	}
}
