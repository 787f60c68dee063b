package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/internal/alarm"
	"github.com/sluice-go/sluice/tracing"
)

// listening is where and how a command listens, and how it logs.
type listening struct {
	listen, admin               string
	certFile, keyFile, clientCA string
	tokens                      string
	logFormat                   string
	accessLog                   bool
	healthLog                   period
	webhook, webhookSecret      string
	webhookPrivate              bool
}

func (l *listening) define(f *pflag.FlagSet) {
	l.listen = "127.0.0.1:8080"
	f.Var(address{&l.listen, false}, "listen", "`address` to listen on; port 0 picks a free one")
	f.Var(address{&l.admin, true}, "admin-listen", "`address` for metrics and health, and for profiles if it is a loopback address; on others, all but health needs a token")
	f.StringVar(&l.tokens, "tokens", "", "YAML `file` of secrets by name, each with a role, so that the audit log has people's names: alice: {role: admin, secret: …}")
	f.StringVar(&l.certFile, "tls-cert", "", "`file` with the certificate to serve TLS with; a new one is used as it comes")
	f.StringVar(&l.keyFile, "tls-key", "", "`file` with the key of the certificate")
	f.StringVar(&l.clientCA, "tls-client-ca", "", "`file` with the authority that must have signed clients' certificates")
	choose(f, &l.logFormat, "log", "text", "format of the log", "text", "json")
	f.BoolVar(&l.accessLog, "access-log", false, "log every request")
	f.Var(&l.healthLog, "health-log", "log a line about the node's health every so often, as a `duration`")
	f.StringVar(&l.webhook, "alarm-webhook", "", "`URL` that alarms are posted to: buckets near their limits, states of the store, bans, a rejected policy, memory pressure")
	f.StringVar(&l.webhookSecret, "alarm-secret", "", "`secret` that signs alarms; @file reads it from a file")
	f.BoolVar(&l.webhookPrivate, "alarm-private", false, "allow an --alarm-webhook that only this machine or network can reach")
}

// openLog returns the log, and what posts alarms, which is nil if nothing does.
// The caller closes it.
func (l *listening) openLog(w io.Writer) (*slog.Logger, *alarm.Hook, error) {
	var h slog.Handler = slog.NewTextHandler(w, nil)
	if l.logFormat == "json" {
		h = slog.NewJSONHandler(w, nil)
	}
	h = newSparing(tracing.LogHandler(h))
	if l.webhook == "" {
		if l.webhookSecret != "" || l.webhookPrivate {
			return nil, nil, errors.New("--alarm-secret and --alarm-private are about --alarm-webhook, which is not given")
		}
		return slog.New(h), nil, nil
	}
	key, err := secret(l.webhookSecret)
	if err != nil {
		return nil, nil, err
	}
	hook, err := alarm.Open(alarm.Config{URL: l.webhook, Secret: key, Private: l.webhookPrivate, Log: slog.New(h)})
	if err != nil {
		return nil, nil, fmt.Errorf("--alarm-webhook: %w", err)
	}
	return slog.New(hook.Handler(h)), hook, nil
}
