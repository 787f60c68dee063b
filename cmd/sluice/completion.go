package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

func completionCommand() *command {
	return &command{
		name: "completion", args: "SHELL", summary: "print a script that completes commands and flags: bash, zsh or fish",
		offline: true,
		about: `Load it where your shell starts:

  bash  source <(sluice completion bash)            in ~/.bashrc
  zsh   source <(sluice completion zsh)             in ~/.zshrc, after compinit
  fish  sluice completion fish | source             in ~/.config/fish/config.fish`,
		examples: []string{"sluice completion bash"},
		run: func(_ context.Context, c *call) error {
			write, ok := map[string]func(io.Writer, []place) error{
				"bash": completeBash, "zsh": completeZsh, "fish": completeFish,
			}[c.arg(0)]
			if !ok {
				return c.wrong("%q: want bash, zsh or fish", c.arg(0))
			}
			return write(c.stdout, placesIn(root(), ""))
		},
	}
}

// place is where the cursor can be: after some commands, with the words that
// can follow.
type place struct {
	path  string // "limits plan", "" at the beginning
	words []word
	files bool // names of files can follow
}

type word struct{ text, about string }

var flagInHelp = regexp.MustCompile(`--[a-z][a-z-]*`)

// placesIn are all places from a command on.
func placesIn(c *command, path string) []place {
	here := place{path: path, files: strings.Contains(c.args, "FILE")}
	var all []place
	switch {
	case c.sub != nil:
		for _, s := range c.sub {
			here.words = append(here.words, word{s.name, s.summary})
			all = append(all, placesIn(s, strings.TrimSpace(path+" "+s.name))...)
		}
		if path == "" {
			here.words = append(here.words, word{"help", "more about a command"})
		}
	case c.raw != nil:
		here.files = true
		for _, f := range slices.Compact(slices.Sorted(slices.Values(flagInHelp.FindAllString(c.help, -1)))) {
			here.words = append(here.words, word{text: f})
		}
	default:
		if c.name == "completion" {
			here.words = []word{{"bash", ""}, {"zsh", ""}, {"fish", ""}}
		}
		c.flagSet(&call{path: path}).VisitAll(func(f *flag.Flag) {
			_, about := flagUsage(f)
			here.words = append(here.words, word{flagName(f), about})
		})
	}
	return append([]place{here}, all...)
}

// quoted is s inside the single quotes of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (p *place) texts() string {
	var all []string
	for _, w := range p.words {
		all = append(all, w.text)
	}
	return strings.Join(all, " ")
}

// known are the paths of all commands, as patterns of a case.
func known(places []place, separator string) string {
	var all []string
	for _, p := range places {
		if p.path != "" {
			all = append(all, quoted(p.path))
		}
	}
	return strings.Join(all, separator)
}

func completeBash(w io.Writer, places []place) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# sluice completion for bash
_sluice() {
  local cur=${COMP_WORDS[COMP_CWORD]} path= next= words= files= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${path:+$path }${COMP_WORDS[i]}"
    case "$next" in
    %s) path=$next ;;
    esac
  done
  case "$path" in
`, known(places, "|"))
	for _, p := range places {
		fmt.Fprintf(&b, "  %s) words=%s", quoted(p.path), quoted(p.texts()))
		if p.files {
			b.WriteString(" files=1")
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString(`  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ -n $files && $cur != -* ]]; then
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}
complete -F _sluice sluice
`)
	_, err := io.WriteString(w, b.String())
	return err
}

func completeZsh(w io.Writer, places []place) error {
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef sluice
# sluice completion for zsh
_sluice() {
  local place= next= files= i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    next="${place:+$place }${words[i]}"
    case "$next" in
    %s) place=$next ;;
    esac
  done
  case "$place" in
`, known(places, "|"))
	for _, p := range places {
		fmt.Fprintf(&b, "  %s)\n    found=(\n", quoted(p.path))
		for _, w := range p.words {
			text := w.text
			if w.about != "" {
				text += ":" + strings.ReplaceAll(w.about, ":", `\:`)
			}
			b.WriteString("      " + quoted(text) + "\n")
		}
		b.WriteString("    )\n")
		if p.files {
			b.WriteString("    files=1\n")
		}
		b.WriteString("    ;;\n")
	}
	b.WriteString(`  esac
  _describe sluice found
  [[ -n $files ]] && _files
}
compdef _sluice sluice
`)
	_, err := io.WriteString(w, b.String())
	return err
}

func completeFish(w io.Writer, places []place) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# sluice completion for fish
function __sluice_place
  set -l place ''
  for word in (commandline -opc)[2..]
    set -l next (string trim "$place $word")
    if contains -- "$next" %s
      set place $next
    end
  end
  echo $place
end
function __sluice_at
  test (__sluice_place) = "$argv[1]"
end
complete -c sluice -f
`, known(places, " "))
	for _, p := range places {
		at := `'__sluice_at "` + p.path + `"'`
		for _, w := range p.words {
			fmt.Fprintf(&b, "complete -c sluice -n %s -a %s", at, quotedFish(w.text))
			if w.about != "" {
				fmt.Fprintf(&b, " -d %s", quotedFish(w.about))
			}
			b.WriteByte('\n')
		}
		if p.files {
			fmt.Fprintf(&b, "complete -c sluice -n %s -F\n", at)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// quotedFish is s inside the single quotes of fish, which has escapes there.
func quotedFish(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
