package main

const about = `Sluice limits rates: never over the limit.
`

// root is the table of all commands. It is made anew for each run, so that no
// flag is left over from another.
func root() *command {
	return &command{
		about: about,
		sub: []*command{
			{name: "serve", summary: "answer takes over HTTP and gRPC", help: serveHelp, raw: serve},
			{name: "gateway", summary: "pass requests on to an API, as far as the policy lets them", help: gatewayHelp, raw: runGateway},
			localCommand(),

			takeCommand(), peekCommand(), leaseCommand(), adjustCommand(), resetCommand(),

			statusCommand(), topCommand(), explainCommand(), usageCommand(), auditCommand(),

			entityCommand(), resourceCommand(), systemCommand(), tierCommand(), keyCommand(), overrideCommand(),
			limitsCommand(), namespaceCommand(), policyCommand(),

			slotsCommand(), replaysCommand(),

			completionCommand(), versionCommand(),
		},
		examples: []string{
			"sluice serve",
			"sluice take alice api",
			"sluice status alice api",
			"sluice top",
			"sluice help limits plan",
		},
	}
}
