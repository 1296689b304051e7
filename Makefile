# Every target that a person calls has a line for `make help` behind ##.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO          ?= go
PYTHON      ?= python3
VENV        := .venv
PY          := $(VENV)/bin/python
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS     := -s -w -X main.version=$(VERSION)
SDK_FILES   := $(shell find sdk/python -name '*.py' -not -path '*/build/*' -o -name pyproject.toml)

.PHONY: help build demo test test-go test-python check fmt bench vectors release clean

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

build: ## bin/agent-reach, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/agent-reach ./cmd/agent-reach

$(VENV)/ready: $(SDK_FILES)
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --editable 'sdk/python[test]'
	touch $@

demo: build $(VENV)/ready ## three teams' agents find and call each other; one is killed and no caller notices
	bin/agent-reach demo --python $(PY) --article test/scenario/article

test: build test-go test-python ## all tests, Go and Python, against real nodes

RACE ?=
test-go: build $(VENV)/ready
	AGENT_REACH_PYTHON=$(abspath $(PY)) $(GO) test $(RACE) -count=1 -timeout 10m ./...

test-python: build $(VENV)/ready
	AGENT_REACH_BIN=$(abspath bin/agent-reach) $(PY) -m pytest -q sdk/python/tests

check: ## format, vet, staticcheck, import rules, then all tests with the race detector
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'run: make fmt' >&2; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test -count=1 ./test/arch
	@$(MAKE) --no-print-directory test RACE=-race

fmt: ## format the Go code
	gofmt -w .

bench: build $(VENV)/ready ## measure; prints a table and writes bench.json. ONLY=name for one row
	cd test/bench && AGENT_REACH_PYTHON=$(abspath $(PY)) $(GO) run . -out $(abspath bench.json) -only '$(ONLY)'

vectors: ## make the test vectors anew; the result must not differ from what is committed
	$(GO) run ./test/vectors/generate
	git diff --exit-code test/vectors

release: ## stripped binaries for linux/amd64 and linux/arm64 with go1.27.3
	for arch in amd64 arm64; do \
	  GOTOOLCHAIN=go1.27.3 CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' \
	    -o bin/agent-reach-linux-$$arch ./cmd/agent-reach; done

clean: ## remove what was built
	rm -rf bin $(VENV) bench.json
