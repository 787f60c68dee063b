# `make` alone prints this help. Each target says what it does after ##.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

# How long each fuzz target runs.
FUZZTIME ?= 3s

# How often soak runs the tests, and how long it fuzzes each target.
SOAKCOUNT ?= 20
SOAKFUZZ ?= 2m

# How many keyed writes soak sends through a gateway that fails in every way.
SOAKWRITES ?= 10000

# How many names callers make up in soak.
SOAKNAMES ?= 1000000

# How many simulated worlds are played, and which is the first; and how many by
# soak.
WORLDS ?= 1000
WORLDSFROM ?= 1
SOAKWORLDS ?= 20000

say = @printf '\n==> %s\n'

.PHONY: help
help: ## Print this help
	@echo "Sluice: never over the limit, at memory speed"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: deps lint openapi race worlds fuzz peers ## Everything that must hold before a change is merged
	$(say) "all good"

.PHONY: deps
deps: ## Install the Debian packages the tests need (as root), or say which are missing
	$(say) "packages"
	@scripts/deps

.PHONY: lint
lint: ## Check format, vet, staticcheck, errcheck
	$(say) "lint"
	@scripts/lint

.PHONY: openapi
openapi: ## Validate the description of the HTTP API, and compile the types made from it
	$(say) "description of the HTTP API"
	@scripts/openapi

.PHONY: race
race: ## Run the tests under the race detector
	$(say) "tests, with the race detector"
	@go test -race -timeout 10m ./...

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME each (3s)
	$(say) "fuzzing, $(FUZZTIME) each"
	@scripts/fuzz $(FUZZTIME)

.PHONY: mutants
mutants: ## Put mended defects back one at a time, and expect the simulated worlds to find each
	$(say) "mended defects, put back"
	@scripts/mutants

.PHONY: upgrade
upgrade: ## Run nodes of an earlier commit and of this one on one store, upgraded and rolled back under load
	$(say) "upgraded and rolled back"
	@scripts/upgrade

.PHONY: outages
outages: ## Have the stores of three nodes fail in every way under load, as root, and write docs/outages.md
	$(say) "outages"
	@scripts/outages

.PHONY: worlds
worlds: ## Play WORLDS simulated worlds (1000) from seed WORLDSFROM (1) on, and print how many
	$(say) "$(WORLDS) simulated worlds"
	@go test -count 1 -timeout 6h -v -run '^TestWorlds$$' ./world -args -world.count $(WORLDS) -world.from $(WORLDSFROM) | grep -v '^=== '

# The benchmarks have their own module, so that the peers they compare with
# never enter the product's.
.PHONY: peers
peers:
	$(say) "benchmarks build and pass their own tests"
	@if [[ -f bench/go.mod ]]; then cd bench && go vet ./... && go test ./...; else echo "no bench module here"; fi

# Temporal has its own module, too. Its tests run a Temporal server, which takes
# minutes to build the first time.
.PHONY: temporal
temporal: ## Run the tests of the module for Temporal, against a Temporal server
	$(say) "Temporal"
	@cd temporal && go vet ./... && go test -timeout 20m ./...

.PHONY: bench
bench: ## Compare with other limiters, and write docs/benchmarks.md
	$(say) "benchmarks"
	@cd bench && go run . -page ../docs/benchmarks.md

.PHONY: soak
soak: deps ## Run the tests SOAKCOUNT times (20) and fuzz for SOAKFUZZ each (2m): finds what is rare
	$(say) "tests, $(SOAKCOUNT) times"
	@go test -race -count $(SOAKCOUNT) -timeout 6h ./...
	@$(MAKE) --no-print-directory worlds WORLDS=$(SOAKWORLDS)
	$(say) "2000 workflows in slots"
	@cd temporal && go test -count 1 -timeout 30m -v -run '^TestManyEventsEachOnce$$' . -args -temporal.events 2000
	$(say) "$(SOAKWRITES) keyed writes under drops, time-outs and kills"
	@go test -count 1 -timeout 1h -v -run '^TestWritesRunOnce$$' ./cmd/sluice -args -writes.count $(SOAKWRITES)
	$(say) "events for a target, of servers that are killed"
	@go test -count 1 -timeout 1h -v -run '^TestFleetCallsTarget$$' ./cmd/sluice -args -target.events 5000
	@go test -count 1 -timeout 2h -v -run '^TestFleetCallsTarget$$' ./cmd/sluice -args -target.events 200000 -target.rate 2000
	$(say) "$(SOAKNAMES) made-up names"
	@go test -count 1 -timeout 2h -v -run '^TestMadeUpNames$$' ./cmd/sluice -args -names.count $(SOAKNAMES) -names.bound 100000
	$(say) "fuzzing, $(SOAKFUZZ) each"
	@scripts/fuzz $(SOAKFUZZ)

.PHONY: build
build: ## Build bin/sluice
	$(say) "build"
	@CGO_ENABLED=0 go build -trimpath -o bin/sluice ./cmd/sluice
	@echo "bin/sluice"

.PHONY: clean
clean: ## Remove what build made
	$(say) "clean"
	@rm -rf bin
