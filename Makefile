# preflight: `make demo` runs the main job on a cluster of its own, `make test`
# passes the tests. Both do all their own set-up.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X main.Version=$(VERSION)
SOURCES  = $(shell find . -name '*.go' -not -name '*_test.go') go.mod go.sum
# No cgo: one static binary that starts on any Linux, whatever its libc.
GOBUILD  = CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'
NAME    ?= pf
N       ?= 4
FUZZTIME ?= 20s
ORACLE  ?= .

.PHONY: build cross demo test race lint docs fuzz oracle bench cluster cluster-down setup clean

build: bin/preflight

bin/preflight: $(SOURCES)
	$(GOBUILD) -o $@ ./cmd/preflight

bin/cluster: $(SOURCES)
	CGO_ENABLED=0 go build -o $@ ./testhosts/cluster

# One sibling a Linux architecture, so that nodes unlike this machine can be reached.
cross:
	for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GOBUILD) -o bin/preflight-linux-$$arch ./cmd/preflight; done

# What demo, test and cluster need from apt; says what it installs.
setup:
	@sh testhosts/apt.sh || echo "going on without them: what cannot run says so"

demo: setup build
	bin/preflight demo

# One package at a time: real nodes have real deadlines, and the tests that hold
# them must not compete for the processors with compilers and other clusters.
test: setup
	go test -p 1 ./...
	@[ "$$(uname)$$(id -u)" = Linux0 ] || echo "NOT RUN, because they need root on Linux: the namespace hosts with a real sshd and their planted faults, full, read-only and noexec file systems, other users' files and processes"

# The tests on real nodes run binaries of their own, which no race is looked for in.
race:
	go test -race -short -p 1 ./...

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	go vet -tags oracle ./oracle
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags oracle ./oracle

docs: build
	bin/preflight checks --format markdown > docs/checks.md

fuzz:
	sh -c 'for target in $$(grep -rl "^func Fuzz" --include=*_test.go . | xargs -n1 dirname | sort -u); do \
	  for name in $$(grep -rhoE "^func Fuzz[A-Za-z]+" $$target/*_test.go | cut -c6-); do \
	    go test -run=^$$ -fuzz="^$$name$$" -fuzztime=$(FUZZTIME) $$target || exit 1; done; done'

# The real thing says whether we are right: torch of three generations, its
# torchrun on real hosts, NCCL, and eight releases of DeepSpeed, whose launcher
# starts real jobs too. Fetches about 7 GB from PyPI the first time.
oracle: setup build
	@if sh oracle/setup.sh; then go test -tags oracle -timeout 60m -run '$(ORACLE)' -v ./oracle; \
	else echo "NOT RUN: the tests against real torch and NCCL, because these could not be installed"; fi

# A cluster of N namespace hosts that stays up to play with (root, Linux).
cluster: setup build bin/cluster
	bin/cluster up -name $(NAME) -n $(N)

cluster-down: bin/cluster
	bin/cluster down -name $(NAME)

# Ratios against pdsh, clush and parallel-ssh in one run (root, Linux).
bench: setup build
	go run ./testhosts/bench -n $(or $(HOSTS),128)
	unshare -n sh -c 'ip link set lo up && ip route add local 10.99.0.0/16 dev lo && go test -run "^$$" -bench Fleet -benchtime 1x .'

clean:
	rm -rf bin dist
