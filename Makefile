# SPDX-License-Identifier: Apache-2.0
# Needs Go >= 1.26, Python >= 3.11, make and git. Everything else is installed below .venv and .muster.

PYTHON ?= python3
NODES ?= 4

VENV := .venv/bin
BIN := .muster/bin
INSTALLED := .venv/.installed
GO_SOURCES := $(shell find plugins localcluster -name '*.go') go.mod go.sum
PROTO := $(wildcard proto/muster/v1/*.proto)
BINARIES := $(addprefix $(BIN)/,muster-scheduler muster-controlplane kubectl kwok)

# Without these kubectl and the control plane do not know their own version.
KUBERNETES := $(shell sed -n 's|.*k8s.io/kubernetes v|v|p' go.mod | head -1)
STAMP := -X k8s.io/component-base/version.gitVersion=$(KUBERNETES) -X k8s.io/component-base/version.gitMajor=1 \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

# One setting for every Go command, so that they share the build cache.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help build demo up down test lint test-go test-python test-kind bench proto lock clean

help: ## show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

build: $(INSTALLED) $(BINARIES) ## build everything (the first time takes about ten minutes on two cores)

demo: build ## a real control plane, three gangs, live
	@$(VENV)/python -m demo

up: build ## start a local cluster with NODES nodes (4) and leave it running
	@$(VENV)/python -m localcluster up --nodes $(NODES)

down: $(INSTALLED) ## stop it
	@$(VENV)/python -m localcluster down

test: lint test-go test-python ## lint, types, and all tests, on a real control plane where one is needed

lint: $(INSTALLED)
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	@test -z "$$(gofmt -l plugins localcluster bench)" || { echo "gofmt would change:"; gofmt -l plugins localcluster bench; exit 1; }
	@scripts/go-progress "vetting Go" vet ./plugins/... ./localcluster/...

test-go: $(INSTALLED)
	@scripts/go-progress "testing Go" test ./plugins/... ./localcluster/...

test-python: build $(addprefix $(BIN)/,protoc-gen-go protoc-gen-go-grpc muster-scheduler-failing)
	$(VENV)/pytest

test-kind: $(INSTALLED) ## the cluster stories on another cluster: KUBECONFIG, with Muster and kwok installed
	MUSTER_TEST_KUBECONFIG="$${KUBECONFIG:?names the cluster}" $(VENV)/pytest tests/stories

bench: build ## measure against the stock scheduler and sigs coscheduling (SHORT=1: minutes)
	$(VENV)/python -m bench $(if $(SHORT),--short)

proto: $(INSTALLED) $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc ## generate code from proto/
	@scripts/generate .

lock: $(INSTALLED) ## pin the newest allowed versions of the Python dependencies
	$(VENV)/pip install --quiet uv
	$(VENV)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras \
		--no-emit-find-links --no-emit-index-url --no-header pyproject.toml -o requirements.lock

clean: ## remove what was built; a running cluster must be down
	rm -rf .venv .muster

$(INSTALLED): requirements.lock pyproject.toml
	@echo "installing Python packages into .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed, this is " + sys.version)'
	@test -x $(VENV)/python || $(PYTHON) -m venv .venv
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(BIN)/muster-scheduler: $(GO_SOURCES)
	@scripts/go-progress "building muster-scheduler" build -ldflags "$(STAMP)" -o $@ ./plugins/cmd/muster-scheduler

# A scheduler that kills itself where a test says; for the restart stories.
$(BIN)/muster-scheduler-failing: $(GO_SOURCES)
	@scripts/go-progress "building muster-scheduler with failpoints" build -tags failpoints -o $@ ./plugins/cmd/muster-scheduler

$(BIN)/muster-controlplane: $(GO_SOURCES)
	@scripts/go-progress "building the control plane" build -ldflags "$(STAMP)" -o $@ ./localcluster/controlplane

$(BIN)/kubectl: go.mod go.sum
	@scripts/go-progress "building kubectl" build -ldflags "$(STAMP)" -o $@ k8s.io/kubernetes/cmd/kubectl

$(BIN)/kwok: localcluster/kwok/go.mod localcluster/kwok/go.sum
	@cd localcluster/kwok && ../../scripts/go-progress "building kwok" build -o ../../$@ sigs.k8s.io/kwok/cmd/kwok

$(BIN)/protoc-gen-go: go.mod
	@go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

$(BIN)/protoc-gen-go-grpc: go.mod
	@go build -o $@ google.golang.org/grpc/cmd/protoc-gen-go-grpc
