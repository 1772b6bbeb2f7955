# preflight: `make demo` runs the main job on a cluster of its own, `make test`
# passes the tests. Both do all their own set-up.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X main.Version=$(VERSION)
# What was built or fetched is none, whatever lies there.
SOURCES  = $(shell find . '(' -path ./.git -o -path ./bin -o -path ./dist ')' -prune -o '(' -name '*.go' -not -name '*_test.go' -o -name '*.[ch]' -o -name '*.sh' -o -path './explain/*.yaml' -o -path './checks/*.md' -o -path './checks/*.yaml' -o -name '*.tmpl' -o -name demo.json ')' -print) go.mod go.sum
# NVML needs cgo, and a build for Linux without a C compiler fails unless NOCGO=1. Names and
# users need none: Go looks those up itself. Package portable makes the result start on any glibc.
TAGS     = netgo,osusergo
GOBUILD  = go build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -overlay $(BIN)/agents/overlay.json
# preflight FILE, GOOS GOARCH
preflight = cc=; [ $(word 1,$(2)) != linux ] || cc=$$(sh portable/cc.sh $(word 2,$(2))) || exit 1; \
	if [ -n "$$cc" ]; then export CGO_ENABLED=1 CC="$$cc"; else export CGO_ENABLED=0; fi; \
	GOOS=$(word 1,$(2)) GOARCH=$(word 2,$(2)) $(GOBUILD) -o $(1) ./cmd/preflight
# What is tested is compiled as what is shipped, and so only once.
export GOFLAGS ?= -trimpath -tags=$(TAGS)
# NVML's functions are not there before its library is loaded: some
# distributions' gcc says -z now, and what it links dies before main.
export CGO_LDFLAGS ?= -O2 -g -Wl,-z,lazy
ARCHES  ?= amd64 arm64
HOST    := $(shell go env GOOS GOARCH)
BIN     ?= bin
NAME    ?= pf
N       ?= 4
# In tries: Go's fuzzing until a time may end in an error of its own, "context deadline exceeded".
FUZZTIME ?= 10000x
ORACLE  ?= .

.PHONY: build cross release release-check image nocgo demo test browser-test race lint docs site score fuzz fuzz-nightly oracle bench cluster cluster-down setup setup-release setup-consumers setup-browser clean

build: $(BIN)/preflight

# What nodes are sent is compiled first and embedded. Nodes like this machine are served,
# or where that is none, those of all that are.
$(BIN)/preflight: $(SOURCES)
	sh cmd/agent/build.sh $(BIN)/agents $(if $(filter linux,$(HOST)),$(word 2,$(HOST)),$(ARCHES))
	$(call preflight,$@,$(HOST))

bin/cluster: $(SOURCES)
	CGO_ENABLED=0 go build -o $@ ./testhosts/cluster

# One that serves nodes of other architectures too.
cross:
	sh cmd/agent/build.sh $(BIN)/agents $(sort $(ARCHES) $(if $(filter linux,$(HOST)),$(word 2,$(HOST))))
	$(call preflight,$(BIN)/preflight,$(HOST))

SBOM = go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

# The agents, held to what RHEL 8 and Ubuntu 20.04 have, and for each system a preflight
# that carries them all; then archives, .deb and .rpm packages, wheels, a list of what is in
# them and checksums. One commit makes the same bytes every time and in any directory: nothing in
# them has another time than the commit's.
release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
release: setup-release
	rm -rf dist
	sh cmd/agent/build.sh $(BIN)/agents $(ARCHES)
	$(MAKE) $(foreach os,linux darwin,$(ARCHES:%=dist/preflight-$(os)-%))
	go run ./portable/floor -glibc 2.28 $(BIN)/agents/linux-*[!z] dist/preflight-linux-*
	$(SBOM) bin -json -std -noserial -notimestamp -version $(VERSION) -output dist/preflight-$(VERSION).cdx.json dist/preflight-linux-$(word 1,$(ARCHES))
	sh packaging/package.sh dist $(VERSION) $(ARCHES)
	cd dist && LC_ALL=C sha256sum preflight* > SHA256SUMS

# An image of the program and nothing else, static, as there is no C library in it, with the
# agents that a release carries. ENGINE is podman or docker.
ENGINE ?= podman
image:
	rm -rf $(BIN)/image
	mkdir -p $(BIN)/image
	sh cmd/agent/build.sh $(BIN)/agents $(ARCHES)
	CGO_ENABLED=0 $(GOBUILD) -o $(BIN)/image/preflight ./cmd/preflight
	sh packaging/notices.sh > $(BIN)/image/THIRD-PARTY.txt
	cp LICENSE NOTICE packaging/passwd $(BIN)/image
	$(ENGINE) build -f packaging/Containerfile -t preflight $(BIN)/image

dist/preflight-%:
	$(call preflight,$@,$(subst -, ,$*))

# Starts them on the C libraries of Ubuntu 18.04 and Debian 11, those for another
# machine under qemu, installs the packages there, runs the image, and takes each way in from
# what was made to a first report, by the clock (root, Linux). Others' programs
# read what we give them: lintian the packages; Prometheus, Icinga, Kubernetes' types,
# GitHub's actionlint, Ansible, ReFrame and NVRx their examples.
release-check: release setup-consumers
	@sh examples/testdata/consumers.sh || echo "going on without Ansible, ReFrame and NVRx, because they could not be fetched from PyPI"
	go test -tags $(TAGS),release -count 1 -v -run 'Actionlint|Alert|Consumer|Icinga|KubernetesTypes' ./examples
	@if [ "$$(uname)$$(id -u)" != Linux0 ]; then echo "NOT RUN: starting the binaries on old systems, because chroot needs root on Linux"; \
	elif sh portable/roots.sh bin/roots; then go test -p 1 -tags $(TAGS),release -timeout 40m -count 1 -v ./portable ./packaging; \
	else echo "NOT RUN: starting the binaries on old systems, because these could not be fetched"; fi

# Everything builds without cgo, as with NOCGO=1, and then reports no fact of NVIDIA's driver.
nocgo: setup
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=0 go vet ./probe/... ./portable/...
	CGO_ENABLED=0 go test -parallel 8 ./probe/... ./portable/...

# What demo, test and cluster need from apt; says what it installs.
setup:
	@sh testhosts/apt.sh || echo "going on without them: what cannot run says so"

setup-release:
	@sh testhosts/apt.sh release || echo "going on without them: what cannot be built says so"

setup-consumers:
	@sh testhosts/apt.sh consumers || echo "going on without them: what takes them says so"

setup-browser:
	@sh testhosts/apt.sh browser || echo "going on without one: what takes a browser says so"

demo: setup build
	bin/preflight demo

# Most packages mostly wait for what never comes, so more of them are tested at once than
# there are processors. Those of ALONE raise hosts for whole runs, each of which keeps the
# processors busy and has real deadlines: they must not compete with compilers. On a slow machine
# they take longer than the ten minutes that go test gives.
ALONE   = ./e2e
TOGETHER = $(filter-out $(shell go list $(ALONE)),$(shell go list ./...))

test: setup
	@status=0; \
	(set -x; go test -p 4 -parallel 8 $(TOGETHER)) || status=1; \
	(set -x; go test -timeout 20m -p 1 -parallel 8 $(ALONE)) || status=1; \
	exit $$status
	@[ -e /usr/bin/chromium ] || echo "NOT RUN, because there is no browser: the HTML report in a real one (make browser-test installs it)"
	@[ "$$(uname)$$(id -u)" = Linux0 ] || echo "NOT RUN, because they need root on Linux: the namespace hosts with a real sshd and their planted faults, full, read-only and noexec file systems, other users' files and processes"

# The HTML report in a real browser, which takes pictures of it. SCREENSHOTS=DIR keeps
# them, to be looked at.
browser-test: setup-browser
	go test -count 1 -v -run Browser ./report/html $(if $(SCREENSHOTS),-screenshots $(abspath $(SCREENSHOTS)))

# Races are between goroutines: looked at is every package that starts one, itself or in
# its tests, with all that it imports. The tests on real nodes run binaries of their own,
# which no race is looked for in; testhosts/kube is a module of its own.
race:
	go test -race -short -p 2 -parallel 8 $$(grep -rlE '^[[:space:]]*go [a-z][A-Za-z.]*[(]|[.]Go[(]' --include=*.go . | xargs -n1 dirname | sort -u | grep -v -e testdata -e testhosts/kube)

# Tags only add files here, so one look with all of them sees everything.
lint:
	test -z "$$(gofmt -l .)"
	go vet -tags $(TAGS),oracle,release ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags $(TAGS),oracle,release ./...

docs: build
	bin/preflight checks --format markdown > docs/checks.md
	bin/preflight facts --format markdown > docs/facts.md
	bin/preflight causes --format markdown > docs/causes.md
	bin/preflight causes --format messages > docs/from-error.md
	bin/preflight help --format markdown > docs/cli.md
	go run ./docs/picture cmd/preflight/demo.json > docs/report.svg
	go test . -run TestPicture -update # the packages in docs/architecture.md

# The pages as a site, in bin/site/html: whatever leads nowhere ends it.
site:
	@sh docs/site.sh || { [ $$? = 3 ] && echo "NOT RUN: the site of the pages, because mkdocs-material could not be installed, which takes python3 with venv and PyPI"; }

# How often explain names the cause of logs whose cause is known: CORPUS is a
# directory with logs/, labels.tsv and ambiguous.tsv.
CORPUS ?= explain/testdata
score:
	@go run ./testhosts/score $(CORPUS)

# What is fuzzed, as DIRECTORY:TARGET. What was found stays in testdata/fuzz of the directory.
# What is new is made shorter in some tries: by default for a minute, in which nothing is tried.
FUZZED = $(shell grep -roE '^func Fuzz[A-Za-z]+' --include='*_test.go' . | sed 's|/[^/]*:func |:|' | sort)

fuzz:
	for target in $(FUZZED); do \
	  go test -run='^$$' -fuzz="^$${target#*:}$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=100x $${target%:*} || exit 1; done

# As long as NIGHT says, in seconds, each as long as the others, and all of them whatever one
# finds. Only an input that fails is a finding: see FUZZTIME.
NIGHT ?= 3600
fuzz-nightly:
	@found=0; log=$$(mktemp); for target in $(FUZZED); do \
	  go test -run='^$$' -fuzz="^$${target#*:}$$" -fuzztime=$$(($(NIGHT) / $(words $(FUZZED))))s -fuzzminimizetime=100x $${target%:*} >$$log 2>&1 && ended=well || ended=badly; \
	  echo "$$target $$ended: $$(grep -o 'execs: [0-9]*' $$log | tail -1)"; \
	  if [ $$ended = badly ]; then cat $$log; grep -q 'context deadline exceeded' $$log && ! grep -q 'Failing input' $$log || found=1; fi; \
	done; rm -f $$log; exit $$found

# The real thing says whether we are right: torch of three generations, its
# torchrun on real hosts, NCCL, and eight releases of DeepSpeed, whose launcher
# starts real jobs too. Fetches about 7 GB from PyPI the first time.
oracle: setup build
	@if sh oracle/setup.sh; then go test -tags $(TAGS),oracle -timeout 90m -run '$(ORACLE)' -v ./oracle $(OUTCOMES); \
	else echo "NOT RUN: the tests against real torch and NCCL, because these could not be installed"; fi

# A cluster of N namespace hosts that stays up to play with (root, Linux).
cluster: setup build bin/cluster
	bin/cluster up -name $(NAME) -n $(N)

cluster-down: bin/cluster
	bin/cluster down -name $(NAME)

# Holds the figures that are promised, most of them ratios to pdsh and to a bare login in
# one run (root, Linux); then how long explain takes, and how soon the HTML report of 1,000
# nodes answers in a browser. ROWS measures those alone whose names match.
bench: setup setup-browser build
	go run ./testhosts/bench -n $(or $(HOSTS),128) -only '$(ROWS)'
	$(if $(ROWS),,go test -run "^$$" -bench Explain ./explain)
	$(if $(ROWS),,go test -run "^$$" -bench Browser -benchtime 10x ./report/html)

clean:
	rm -rf bin dist
