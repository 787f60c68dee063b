package envoy

import (
	"fmt"

	"go.yaml.in/yaml/v2"
)

// The files are read with the same YAML library as in envoyproxy/ratelimit,
// version 2, so that they mean the same and mistakes are called the same:
// version 3 refuses repeated keys and reads fewer words as booleans.

// maxFile is how large one file may be.
const maxFile = 16 << 20

type yamlRoot struct {
	Domain      string
	Descriptors []yamlDescriptor

	// Ours: for all limits of the file that do not say otherwise.
	Algorithm    string
	CountRefused *bool `yaml:"count_refused"`
	Hold         *bool
}

type yamlDescriptor struct {
	Key            string
	Value          string
	RateLimit      *yamlRateLimit `yaml:"rate_limit"`
	Descriptors    []yamlDescriptor
	ShadowMode     bool `yaml:"shadow_mode"`
	QuotaMode      bool `yaml:"quota_mode"`
	DetailedMetric bool `yaml:"detailed_metric"`
	ValueToMetric  bool `yaml:"value_to_metric"`
	ShareThreshold bool `yaml:"share_threshold"`
}

type yamlRateLimit struct {
	RequestsPerUnit uint32 `yaml:"requests_per_unit"`
	Unit            string
	Unlimited       bool
	Name            string
	Replaces        []struct{ Name string }

	// Ours.
	Algorithm    string
	Period       string
	Burst        uint32
	CountRefused *bool `yaml:"count_refused"`
	Hold         *bool
}

var validKeys = map[string]bool{
	"domain": true, "key": true, "value": true, "descriptors": true, "rate_limit": true,
	"unit": true, "requests_per_unit": true, "unlimited": true, "name": true, "replaces": true,
	"shadow_mode": true, "quota_mode": true,
	"detailed_metric": true, "value_to_metric": true, "share_threshold": true,

	"algorithm": true, "period": true, "burst": true, "count_refused": true, "hold": true,
}

// parseFile reads one file. Its errors begin with the name, and are worded as
// in envoyproxy/ratelimit.
func parseFile(name string, content []byte) (*yamlRoot, error) {
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s: %d bytes: a file must be at most %d bytes long", name, len(content), maxFile)
	}
	anything := map[any]any{}
	if err := yaml.Unmarshal(content, &anything); err != nil {
		return nil, fmt.Errorf("%s: error loading config file: %w", name, err)
	}
	if err := validateKeys(anything); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var root yamlRoot
	if err := yaml.Unmarshal(content, &root); err != nil {
		return nil, fmt.Errorf("%s: error loading config file: %w", name, err)
	}
	return &root, nil
}

// validateKeys finds keys that mean nothing, and what is neither a map nor a
// plain value.
func validateKeys(m map[any]any) error {
	for k, v := range m {
		key, ok := k.(string)
		if !ok {
			return fmt.Errorf("config error, key is not of type string: %v", k)
		}
		if !validKeys[key] {
			return fmt.Errorf("config error, unknown key '%s'", key)
		}
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				element, ok := e.(map[any]any)
				if !ok {
					return fmt.Errorf("config error, yaml file contains list of type other than map: %v", e)
				}
				if err := validateKeys(element); err != nil {
					return err
				}
			}
		case map[any]any:
			if err := validateKeys(v); err != nil {
				return err
			}
		case string, int, bool, nil:
		default:
			return fmt.Errorf("error checking config")
		}
	}
	return nil
}
