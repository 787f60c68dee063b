package catalog

import "encoding/json"

// StoredSetting is s as it is stored.
func StoredSetting(s Setting) ([]byte, error) { return json.Marshal(s.stored()) }

// ReadSetting reads what StoredSetting writes.
func ReadSetting(text []byte) (Setting, error) {
	var s storedSetting
	if err := json.Unmarshal(text, &s); err != nil {
		return Setting{}, err
	}
	return s.setting()
}
