package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
)

// path returns the words of a command without sluice: "limits plan".
func path(cmd *cobra.Command) string {
	_, words, _ := strings.Cut(cmd.CommandPath(), " ")
	return words
}

// wrong returns an error about how a command was called.
func wrong(cmd *cobra.Command, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	if path(cmd) == "" {
		return fmt.Errorf("%s; see sluice help", message)
	}
	return fmt.Errorf("%[1]s: %[2]s; see sluice help %[1]s", path(cmd), message)
}

// unknown returns an error about a word that names no command of a group, with
// those that may have been meant.
func unknown(in *cobra.Command, word string) error {
	if like := in.SuggestionsFor(word); len(like) > 0 {
		return wrong(in, "unknown command %q; did you mean %s?", word, anyOf(like, true))
	}
	return wrong(in, "unknown command %q", word)
}

// anyOf lists words: a, b or c.
func anyOf(words []string, quoted bool) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		if quoted {
			word = fmt.Sprintf("%q", word)
		}
		b.WriteString(word)
	}
	return b.String()
}

// badFlag returns what is wrong with a flag, and what would be right.
func badFlag(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var name *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return badValue(cmd, value.GetFlag(), "--"+value.GetFlag().Name, value.GetValue(), value.Unwrap())
	case errors.As(err, &name) && len(name.GetSpecifiedShortnames()) > 1:
		return wrong(cmd, "unknown flag: -%[1]s; want two dashes: --%[1]s", name.GetSpecifiedShortnames())
	case errors.As(err, &name) && cmd.Flags().Lookup(renamed[name.GetSpecifiedName()]) != nil:
		return wrong(cmd, "--%s: is now called --%s", name.GetSpecifiedName(), renamed[name.GetSpecifiedName()])
	}
	return wrong(cmd, "%v", err)
}

// byFlag returns the text of an error, which names a flag where err names the
// field of a package.
func byFlag(err error) string {
	text := err.Error()
	var field *sluice.FieldError
	if errors.As(err, &field) {
		flag := map[string]string{
			"utilization.warning": "--warn-at", "utilization.critical": "--critical-at", "gateway.upstream": "--upstream",
			"gateway.max_body": "--max-body", "gateway.response_timeout": "--response-timeout",
		}[field.Field]
		text = strings.Replace(text, field.Field, cmp.Or(flag, field.Field), 1)
	}
	return text
}

// badValue returns an error about a value from somewhere, such as a flag or
// the environment.
func badValue(cmd *cobra.Command, f *pflag.Flag, from, value string, err error) error {
	want, known := map[string]string{
		"bool": "want true or false", "int": "want a whole number", "int64": "want a whole number", "float64": "want a number",
	}[f.Value.Type()]
	if !known {
		want = err.Error()
	}
	return wrong(cmd, "%s %q: %s", from, value, want)
}
