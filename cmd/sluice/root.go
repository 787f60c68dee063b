package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// usage is the template of all help, after the text about the command.
const usage = `Usage: {{.UseLine}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}
`

// root returns all commands. They are new for each run, so that no flag is
// left over from another.
func root() *cobra.Command {
	top := branch(&cobra.Command{
		Use: "sluice", Short: "limit rates, and never exceed a limit",
		Long: `Exit codes:
  0  allowed, or done
  1  refused by a limit; for limits diff: there are differences
  2  an error: wrong usage, no answer, a mistake in a file

Flags may precede or follow the command. Where the help of a flag names a
variable, such as SLUICE_SERVER, the environment can set it, and so can a file
that --config or SLUICE_CONFIG names, as a line "server: …". A flag overrides
the environment, which overrides the file.`,
		Example: `sluice serve
sluice take alice api
sluice status alice api
sluice top
sluice help limits plan`,
		Version: built().String(), SilenceErrors: true, SilenceUsage: true, PersistentPreRunE: settle,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	},
		serveCommand(), gatewayCommand(), migrateCommand(), dynamodbCommand(), localCommand(),
		takeCommand(), peekCommand(), leaseCommand(), adjustCommand(), resetCommand(),
		statusCommand(), topCommand(), nodesCommand(), sanctionsCommand(), explainCommand(), usageCommand(), auditCommand(),
		entityCommand(), resourceCommand(), systemCommand(), tierCommand(), keyCommand(), overrideCommand(),
		limitsCommand(), namespaceCommand(), cacheCommand(), policyCommand(), slotsCommand(), replaysCommand(),
		completionCommand(), manCommand(), versionCommand())
	top.SetVersionTemplate("{{.Version}}\n")
	top.SetUsageTemplate(usage)
	top.SetHelpTemplate("{{with .Long}}{{.}}\n\n{{end}}{{.UsageString}}")
	top.SetFlagErrorFunc(badFlag)
	top.InitDefaultHelpCmd()
	every(top, complete)
	return top
}

// complete adds to a command what follows from the rest of it.
func complete(cmd *cobra.Command) {
	if cmd.Name() == "help" {
		cmd.Use, cmd.Short, cmd.Long, cmd.RunE = "help [COMMAND...]", "explain a command", "", help
	}
	cmd.Long = strings.TrimSpace(strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + ".\n\n" + cmd.Long)
	if cmd.Example != "" {
		cmd.Example = "  " + strings.ReplaceAll(cmd.Example, "\n", "\n  ")
	}
	if cmd.Args == nil {
		cmd.Args = arguments
	}
	if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := cobra.NoFileCompletions
		if c, ok := f.Value.(*choice); ok {
			values = cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)
		}
		if name, _ := pflag.UnquoteUsage(f); name != "file" && name != "folder" {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(f.Name, values))
		}
	})
}

// plainUsage removes the backquotes that mark the name of a flag's value, which
// shells would show.
func plainUsage(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
}

// help prints the help of the command that words name.
func help(cmd *cobra.Command, words []string) error {
	about, rest, err := cmd.Root().Find(words)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return unknown(about, rest[0])
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion SHELL", Short: "print a script that completes commands and flags in bash, zsh or fish",
		Long: `Load it where your shell starts:

  bash  source <(sluice completion bash)            in ~/.bashrc
  zsh   source <(sluice completion zsh)             in ~/.zshrc, after compinit
  fish  sluice completion fish | source             in ~/.config/fish/config.fish`,
		Example: "sluice completion bash", ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(cmd.OutOrStdout(), true)
			case "zsh":
				return cmd.Root().GenZshCompletion(cmd.OutOrStdout())
			case "fish":
				return cmd.Root().GenFishCompletion(cmd.OutOrStdout(), true)
			}
			return wrong(cmd, "%q: want bash, zsh or fish", args[0])
		},
	}
}

// manCommand is for those who make packages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "write manual pages, one for each command, to a folder", Hidden: true,
		Example: "sluice man /usr/local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "Sluice", Manual: "Sluice Manual"}, args[0])
		},
	}
}
