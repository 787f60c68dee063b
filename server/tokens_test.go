package server

import "testing"

// A list with a mistake changes nothing.
func TestTokenListIsReplacedAsAWhole(t *testing.T) {
	var list TokenList
	door, err := newDoorman(Access{Named: &list, Tokens: []Token{{"fixed", "0123456789abcdef", RoleRead}}})
	if err != nil {
		t.Fatal(err)
	}
	alice, bob := Token{"alice", "alice's own secret", RoleAdmin}, Token{"bob", "bob's secret, longer", RoleService}
	for _, step := range []struct {
		set       []Token
		ok        bool
		finds     Token
		findsNone Token
	}{
		{nil, true, Token{"fixed", "0123456789abcdef", RoleRead}, alice},
		{[]Token{alice}, true, alice, bob},
		{[]Token{bob, {"eve", "short", RoleAdmin}}, false, alice, bob},
		{[]Token{bob}, true, bob, alice},
	} {
		if err := list.Set(step.set); (err == nil) != step.ok {
			t.Errorf("%v: %v", step.set, err)
		}
		if c := door.find(step.finds.Secret); c == nil || c.name != step.finds.Name || c.role != step.finds.Role.full() {
			t.Errorf("after %v: %+v, want %s", step.set, c, step.finds.Name)
		}
		if c := door.find(step.findsNone.Secret); c != nil {
			t.Errorf("after %v: %+v is still known", step.set, c)
		}
	}
}
