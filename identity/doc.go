// Package identity tells who is calling: by API key, else by signed token,
// else by network address.
//
// The address is always found and can always be limited. Headers that name a
// client's address are believed only as far as trusted proxies wrote them,
// and nothing a client sends leads to "nobody".
//
// A credential that is sent and does not verify is an error of type
// [*InvalidError], never a silent step down to the address: the caller is
// told, and the attempt is counted against its address.
package identity
