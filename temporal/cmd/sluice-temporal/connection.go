package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"go.temporal.io/sdk/client"
)

// connection is how Temporal is reached. What no flag says is taken from the
// environment variables that other clients of Temporal read.
type connection struct {
	address, namespace          string
	secure                      bool
	authority, name             string
	certificate, certificateKey string
	keyFile                     string
}

func (c *connection) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.address, "address", cmp.Or(os.Getenv("TEMPORAL_ADDRESS"), client.DefaultHostPort), "address of Temporal; or TEMPORAL_ADDRESS")
	flags.StringVar(&c.namespace, "namespace", cmp.Or(os.Getenv("TEMPORAL_NAMESPACE"), client.DefaultNamespace), "its namespace; or TEMPORAL_NAMESPACE")
	flags.BoolVar(&c.secure, "tls", os.Getenv("TEMPORAL_TLS") == "true", "use TLS, as the following and an API key imply; or TEMPORAL_TLS=true")
	flags.StringVar(&c.authority, "tls-ca", os.Getenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH"), "file with the authorities to trust, in PEM")
	flags.StringVar(&c.name, "tls-name", os.Getenv("TEMPORAL_TLS_SERVER_NAME"), "name in the server's certificate, if it is not that of the address")
	flags.StringVar(&c.certificate, "tls-cert", os.Getenv("TEMPORAL_TLS_CLIENT_CERT_PATH"), "file with the client's certificate, in PEM")
	flags.StringVar(&c.certificateKey, "tls-key", os.Getenv("TEMPORAL_TLS_CLIENT_KEY_PATH"), "file with its key")
	flags.StringVar(&c.keyFile, "api-key-file", "", "file with an API key; or TEMPORAL_API_KEY, the key itself")
}

func (c *connection) options() (client.Options, error) {
	options := client.Options{HostPort: c.address, Namespace: c.namespace}
	key := os.Getenv("TEMPORAL_API_KEY")
	if c.keyFile != "" {
		content, err := os.ReadFile(c.keyFile)
		if err != nil {
			return options, err
		}
		if key = strings.TrimSpace(string(content)); key == "" {
			return options, fmt.Errorf("%s has no key", c.keyFile)
		}
	}
	if key != "" {
		options.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	if key == "" && !c.secure && c.authority+c.name+c.certificate+c.certificateKey == "" {
		return options, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.name}
	if c.authority != "" {
		pem, err := os.ReadFile(c.authority)
		if err != nil {
			return options, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return options, fmt.Errorf("%s has no certificate", c.authority)
		}
	}
	if c.certificate+c.certificateKey != "" {
		pair, err := tls.LoadX509KeyPair(c.certificate, c.certificateKey)
		if err != nil {
			return options, errors.Join(errors.New("--tls-cert and --tls-key"), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	options.ConnectionOptions.TLS = config
	return options, nil
}
