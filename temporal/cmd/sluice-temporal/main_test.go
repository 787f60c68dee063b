package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	server "go.temporal.io/server/temporal"
	"go.temporal.io/server/temporaltest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// secured puts TLS in front of an address, with a certificate of its own, and
// returns where that is and a file with the certificate.
func secured(t *testing.T, behind string) (address, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"temporal.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer outside.Close()
				inside, err := net.Dial("tcp", behind)
				if err != nil {
					return
				}
				defer inside.Close()
				go io.Copy(inside, outside)
				io.Copy(outside, inside)
			}()
		}
	}()
	return listener.Addr().String(), authority
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The binary reaches Temporal through TLS and with an API key, and starts a
// workflow on the task queue that it was told.
func TestItStartsWorkflowsOverTLSWithAnAPIKey(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	note := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if md, ok := metadata.FromIncomingContext(ctx); ok && strings.HasSuffix(info.FullMethod, "StartWorkflowExecution") {
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, md.Get("authorization")...)
		}
		return handle(ctx, request)
	}
	behind := temporaltest.NewServer(temporaltest.WithT(t), temporaltest.WithBaseServerOptions(server.WithChainedFrontendGrpcInterceptors(note)))
	address, authority := secured(t, behind.GetFrontendHostPort())

	ctx, stop := context.WithCancel(t.Context())
	listens, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{
			"--listen", "127.0.0.1:0", "--unsigned", "--workflow", "pay", "--task-queue", "urgent", "--address", address,
			"--namespace", behind.GetDefaultNamespace(), "--tls-ca", authority, "--tls-name", "temporal.example", "--api-key-file", file(t, "the key\n"),
		}, func(a net.Addr) { listens <- a })
	}()
	var at string
	select {
	case a := <-listens:
		at = "http://" + a.String()
	case err := <-ended:
		t.Fatal(err)
	}
	health, err := http.Get(at + "/healthz")
	if err != nil || health.StatusCode != http.StatusOK {
		t.Fatalf("%v: %+v", err, health)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/", strings.NewReader(`{"amount":12}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Webhook-Id", "payment-1")
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v: %+v", err, response)
	}
	c := behind.NewClientWithOptions(client.Options{})
	d, err := c.DescribeWorkflowExecution(t.Context(), "payment-1", "")
	if info := d.GetWorkflowExecutionInfo(); err != nil || info.GetTaskQueue() != "urgent" || info.GetType().GetName() != "pay" {
		t.Errorf("%v: %+v", err, info)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(keys) != 1 || keys[0] != "Bearer the key" {
		t.Errorf("credentials %q", keys)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"--workflow", "pay"}, // neither signed nor not
		{"--workflow", "pay", "--unsigned", "--secret-file", file(t, "a b")},
		{"--unsigned"},
		{"--workflow", "pay", "--secret-file", "/nowhere"},
		{"--workflow", "pay", "--secret-file", file(t, "\n")},
		{"--workflow", "pay", "--unsigned", "--tls-ca", file(t, "no certificate")},
		{"--workflow", "pay", "--unsigned", "--tls-cert", "/nowhere"},
		{"--workflow", "pay", "--unsigned", "--api-key-file", file(t, " ")},
		{"--workflow", "pay", "--unsigned", "--listen", "nowhere:x"},
	} {
		if err := run(t.Context(), args, func(net.Addr) { t.Errorf("%q listens", args) }); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
