package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/gateway"
)

// TestOnlyWebSocketsAreTunnels: in a tunnel to a server that speaks HTTP,
// requests would pass without the gate.
func TestOnlyWebSocketsAreTunnels(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nthrough", r.Header.Get("Upgrade"))
	})
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, plain)})
	for upgrade, want := range map[string]string{"websocket": "101", "WebSocket": "101", "h2c": "204", "HTTP/2.0": "204", "websocket, h2c": "204", "tcp": "204"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", upgrade)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%s: %q, %v", upgrade, line, err)
		}
	}
}

// TestHeadersThatServersConfuse: many servers take an underscore for a dash,
// so that X_Forwarded_For would be as good as the header that was taken out.
func TestHeadersThatServersConfuse(t *testing.T) {
	up := upstream(t, echo)
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, plain)})
	_, body := do(t, "GET", url, nil, "X_Forwarded_For", "6.6.6.6", "X-Forwarded_For", "6.6.6.6", "X_API_Key", "somebody's", "X-Kept", "yes")
	var got echoed
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for name := range got.Header {
		if strings.Contains(name, "_") {
			t.Errorf("%s arrives", name)
		}
	}
	if got.Header.Get("X-Kept") != "yes" || got.Header.Get("X-Forwarded-For") == "" {
		t.Errorf("%v", got.Header)
	}
}

// TestATargetThatIsNoPath: what the gate has looked at is what the upstream
// is asked for.
func TestATargetThatIsNoPath(t *testing.T) {
	up := upstream(t, echo)
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, plain)})
	for target, want := range map[string]string{"x:admin/users": `"uri":"/"`, "http://elsewhere/admin": `"uri":"/admin"`, "http:/admin": `"uri":"/admin"`} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %v", target, answer, err)
		}
	}
}
