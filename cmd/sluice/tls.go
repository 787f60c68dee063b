package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a pair of files that is read again when they change.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time // of the files that current was read from
	looked  time.Time
}

// lookEvery is how often the files are looked at.
const lookEvery = time.Second

// serverTLS is how to listen with a certificate, nil for none. With an
// authority for clients, only clients that it has signed for are let in.
func serverTLS(certFile, keyFile, clientCA string, log *slog.Logger) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		if clientCA != "" {
			return nil, errors.New("--tls-client-ca needs --tls-cert and --tls-key")
		}
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("--tls-cert and --tls-key belong together")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get, NextProtos: []string{"h2", "http/1.1"}}
	if clientCA != "" {
		text, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls: %s: has no certificate in PEM", clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// clientTLS is how to connect with certificates of one's own. The flags are
// called by their names after a prefix.
func clientTLS(prefix, ca, certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("--%sca: %w", prefix, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--%sca: %s: has no certificate in PEM", prefix, ca)
		}
	}
	if (certFile == "") != (keyFile == "") {
		return nil, fmt.Errorf("--%[1]scert and --%[1]scert-key belong together", prefix)
	}
	if certFile != "" {
		c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
		if err := c.load(); err != nil {
			return nil, fmt.Errorf("--%scert: %w", prefix, err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.get(nil) }
	}
	return config, nil
}

// get is the certificate for a new connection. New files that are wrong are
// reported, and the certificate before them stays.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) > lookEvery {
		c.looked = time.Now()
		if when, err := c.modified(); err == nil && !when.Equal(c.changed) {
			if err := c.load(); err != nil {
				c.log.Error("new certificate not used", "file", c.certFile, "error", err)
			} else {
				c.log.Info("new certificate", "file", c.certFile)
			}
		}
	}
	return c.current, nil
}

// modified is when the later of the two files changed.
func (c *certificate) modified() (time.Time, error) {
	cert, err := os.Stat(c.certFile)
	key, err2 := os.Stat(c.keyFile)
	if err := errors.Join(err, err2); err != nil {
		return time.Time{}, err
	}
	if key.ModTime().After(cert.ModTime()) {
		return key.ModTime(), nil
	}
	return cert.ModTime(), nil
}

func (c *certificate) load() error {
	when, err := c.modified()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current, c.changed = &pair, when
	return nil
}
