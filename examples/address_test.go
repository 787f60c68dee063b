package examples_test

import (
	"net/http"

	"github.com/sluice-go/sluice/httplimit"
)

func Example_byAddress() {
	http.ListenAndServe(":8080", httplimit.PerIP("100/minute")(http.DefaultServeMux))
}
