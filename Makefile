# `make demo` runs preflight on a cluster of test hosts, and `make test` runs all tests. Both
# do all their own set-up.

VERSION ?= $(shell sh packaging/version.sh)
LDFLAGS  = -s -w -X main.Version=$(VERSION)
# All files that the binary depends on, except what was built or downloaded.
SOURCES  = $(shell find . '(' -path ./.git -o -path ./bin -o -path ./dist ')' -prune -o '(' -name '*.go' -not -name '*_test.go' -o -name '*.[ch]' -o -name '*.sh' -o -path './explain/*.yaml' -o -path './checks/*.md' -o -path './checks/*.yaml' -o -name '*.tmpl' -o -name demo.json ')' -print) go.mod go.sum
# NVML needs cgo, so a build for Linux without a C compiler fails unless NOCGO=1. Host and user
# names need no cgo, because Go looks them up itself (netgo, osusergo). Package portable makes the
# result start on any glibc.
TAGS     = netgo,osusergo
GOBUILD  = go build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -overlay $(BIN)/agents/overlay.json
# $(call preflight,FILE,GOOS GOARCH) builds preflight for a system.
preflight = cc=; [ $(word 1,$(2)) != linux ] || cc=$$(sh portable/cc.sh $(word 2,$(2))) || exit 1; \
	if [ -n "$$cc" ]; then export CGO_ENABLED=1 CC="$$cc"; else export CGO_ENABLED=0; fi; \
	GOOS=$(word 1,$(2)) GOARCH=$(word 2,$(2)) $(GOBUILD) -o $(1) ./cmd/preflight
# Tests use the same flags as the build, so that each package is compiled only once.
export GOFLAGS ?= -trimpath -tags=$(TAGS)
# NVML's functions exist only after its library is loaded. The gcc of some distributions links
# with -z now, and such a program stops before main.
export CGO_LDFLAGS ?= -O2 -g -Wl,-z,lazy
ARCHES  ?= amd64 arm64
HOST    := $(shell go env GOOS GOARCH)
BIN     ?= bin
NAME    ?= pf
N       ?= 4
# A number of tries, because fuzzing for a time may end with Go's own error "context deadline
# exceeded".
FUZZTIME ?= 10000x
ORACLE  ?= .
# How many rows of a test of the oracle run at the same time. Most rows keep a processor busy for
# most of their time.
ROWS_AT_ONCE ?= 2

.PHONY: build cross deb rpm wheel archive gpu release release-check image nocgo demo test browser-test race lint docs site score fuzz fuzz-nightly oracle bench cluster cluster-down setup setup-demo setup-release setup-consumers setup-docker setup-browser clean

build: $(BIN)/preflight

# The agent is compiled first and embedded. On Linux it is built for this machine's architecture,
# and on other systems for all ARCHES.
$(BIN)/preflight: $(SOURCES)
	sh cmd/agent/build.sh $(BIN)/agents $(if $(filter linux,$(HOST)),$(word 2,$(HOST)),$(ARCHES))
	$(call preflight,$@,$(HOST))

bin/cluster: $(SOURCES)
	CGO_ENABLED=0 go build -o $@ ./testhosts/cluster

# A preflight that also serves nodes of other architectures.
cross:
	sh cmd/agent/build.sh $(BIN)/agents $(sort $(ARCHES) $(if $(filter linux,$(HOST)),$(word 2,$(HOST))))
	$(call preflight,$(BIN)/preflight,$(HOST))

# `make deb`, `make rpm`, `make wheel` and `make archive` write one package to dist, for this machine
# and for nodes of the same architecture (Linux).
deb: here-deb
rpm: here-rpm
wheel: here-wheel
archive: here-archive
here-%: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
here-%:
	$(if $(filter rpm,$*),@sh testhosts/apt.sh rpm)
	rm -rf dist/here
	mkdir -p dist/here
	sh cmd/agent/build.sh $(BIN)/agents $(word 2,$(HOST))
	@$(call preflight,dist/here/$(subst $() ,-,preflight $(HOST)),$(HOST))
	sh packaging/package.sh dist/here $(VERSION) -only $* $(word 2,$(HOST))
	@rm dist/here/$(subst $() ,-,preflight $(HOST)) && mv -v dist/here/* dist/ && rmdir dist/here

# Packs a test of preflight on one real NVIDIA GPU, for a bare machine with Python and torch:
# unpack it there and run `sh run.sh`. It needs no network, no sshd and no Go.
GPU = dist/preflight-gpu-$(subst $() ,-,$(HOST))
gpu: build
	rm -rf $(GPU)
	mkdir -p $(GPU)
	CGO_ENABLED=0 go test -c -trimpath -tags $(TAGS) -ldflags '-s -w' -o $(GPU)/gpu.test ./e2e/gpu
	cp $(BIN)/preflight e2e/gpu/rank.py e2e/gpu/run.sh $(GPU)
	cp $(BIN)/agents/linux-$(word 2,$(HOST)) $(GPU)/agent
	tar -C $(dir $(GPU)) -czf $(GPU).tar.gz $(notdir $(GPU))
	@rm -r $(GPU) && ls -l $(GPU).tar.gz

SBOM = go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

# Builds the agents, for the glibc of RHEL 8 and Ubuntu 20.04, and for each system a preflight
# that contains all of them. Then packs archives, .deb and .rpm packages, wheels, a list of the
# contents and checksums. One commit gives the same bytes every time and in any directory,
# because all files have the time of the commit.
release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
release: setup-release
	rm -rf dist
	sh cmd/agent/build.sh $(BIN)/agents $(ARCHES)
	$(MAKE) $(foreach os,linux darwin,$(ARCHES:%=dist/preflight-$(os)-%))
	go run ./portable/floor -glibc 2.28 $(BIN)/agents/linux-*[!z] dist/preflight-linux-*
	$(SBOM) bin -json -std -noserial -notimestamp -version $(VERSION) -output dist/preflight-$(VERSION).cdx.json dist/preflight-linux-$(word 1,$(ARCHES))
	sh packaging/package.sh dist $(VERSION) $(ARCHES)
	cd dist && LC_ALL=C sha256sum preflight* > SHA256SUMS

# Builds an image that contains only preflight, with the agents of a release. preflight is static
# there, because the image has no C library. ENGINE is podman or docker.
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

# Starts the binaries with the C libraries of Ubuntu 18.04 and Debian 11, with qemu for the other
# architecture. Installs the packages there, runs the image, and measures each way of installing
# up to a first report (root, Linux). Other programs check what we ship: lintian the packages, and
# Prometheus, Icinga, Kubernetes' types, GitHub's actionlint, Ansible, ReFrame and NVRx their
# examples.
release-check: release setup-consumers
	@sh examples/testdata/consumers.sh || echo "continuing without Ansible, ReFrame and NVRx, because PyPI could not be reached"
	go test -tags $(TAGS),release -count 1 -v -run 'Actionlint|Alert|Consumer|Icinga|KubernetesTypes' ./examples
	@if [ "$$(uname)$$(id -u)" != Linux0 ]; then echo "NOT RUN: starting the binaries on old systems, because chroot needs root on Linux"; \
	elif sh portable/roots.sh bin/roots; then go test -p 1 -tags $(TAGS),release -timeout 40m -count 1 -v ./portable ./packaging; \
	else echo "NOT RUN: starting the binaries on old systems, because their C libraries could not be downloaded"; fi

# Tests that everything builds without cgo, as with NOCGO=1, and then reports no NVIDIA driver facts.
nocgo: setup
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=0 go vet ./probe/... ./portable/...
	CGO_ENABLED=0 $(GOTEST) -parallel 8 ./probe/... ./portable/...

# Installs with apt what the tests need, and lists it. setup-demo installs only what demo and cluster
# need.
setup:
	@sh testhosts/apt.sh || echo "continuing without them; what cannot run is reported"

setup-demo:
	@sh testhosts/apt.sh demo || echo "continuing without them; what cannot run is reported"

setup-release:
	@sh testhosts/apt.sh release || echo "continuing without them; what cannot be built is reported"

setup-consumers:
	@sh testhosts/apt.sh consumers || echo "continuing without them; the tests that need them report it"

setup-docker:
	@sh testhosts/apt.sh docker || echo "continuing without Docker; the tests that need it report it"

setup-browser:
	@sh testhosts/apt.sh browser || echo "continuing without a browser; the tests that need one report it"

demo: setup-demo build
	bin/preflight demo

# make lint vets all code, so the tests do not vet it again. With GOGC=400, compilers need a fifth less
# processor time and more memory.
GOTEST = go test -vet=off -toolexec 'env GOGC=400'

# The packages of FIRST mostly wait for time-outs, beside the compilers and the other tests, so more
# packages are tested at once than there are processors. The packages of LAST start hosts for whole
# runs, which keep the processors busy and have real deadlines. They must not compete with compilers,
# so they start when everything else is compiled. On a slow machine they take longer than the ten
# minutes of go test's default time-out.
FIRST = ./remote/... ./fleet ./drill/... ./testhosts ./examples ./report/html
LAST  = ./e2e

test: setup setup-docker
	$(GOTEST) -p 6 -parallel 8 -timeout 20m $(FIRST) $(filter-out $(shell go list $(LAST)),$(shell go list ./...)) $(LAST)
	@[ -e /usr/bin/chromium ] || echo "NOT RUN, because there is no browser: the HTML report in a real one (make browser-test installs it)"
	@[ "$$(uname)$$(id -u)" = Linux0 ] || echo "NOT RUN, because they need root on Linux: the namespace hosts with a real sshd and their planted faults, full, read-only and noexec file systems, other users' files and processes"

# Tests the HTML report in a real browser, which takes pictures of it. SCREENSHOTS=DIR keeps the
# pictures.
browser-test: setup-browser
	go test -count 1 -v -run Browser ./report/html $(if $(SCREENSHOTS),-screenshots $(abspath $(SCREENSHOTS)))

# Runs the race detector on every package that starts a goroutine, itself or in its tests, with
# everything that it imports. The tests on test hosts run separate binaries, in which races are
# not detected. -short leaves them out. Seeds of fuzzing are left out too, because other tests
# start the same goroutines. In the reverse order, packages that mostly wait start first.
race:
	$(GOTEST) -race -short -skip '^Fuzz' -p 4 -parallel 8 $$(grep -rlE '^[[:space:]]*go [a-z][A-Za-z.]*[(]|[.]Go[(]' --include=*.go . | xargs -n1 dirname | sort -ru | grep -v -e testdata -e testhosts -e oracle -e report/html)

# Build tags only add files here, so one run with all tags covers everything.
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
	go run ./docs/picture -demo cmd/preflight/demo.json > docs/demo.svg
	go test . -run TestPicture -update # the packages in docs/architecture.md

# Builds the pages as a site, in bin/site/html. A broken link fails the build.
site:
	@sh docs/site.sh || { [ $$? = 3 ] && echo "NOT RUN: the site, because mkdocs-material could not be installed; it needs python3 with venv, and PyPI"; }

# Measures how often explain names the right cause, for logs with known causes. CORPUS is a
# directory with logs/, labels.tsv and ambiguous.tsv.
CORPUS ?= explain/testdata
score:
	@go run ./testhosts/score $(CORPUS)

# All fuzz targets, as DIRECTORY:TARGET. Inputs that fail stay in testdata/fuzz of the directory.
# -fuzzminimizetime limits the tries that shorten a new input. By default, Go shortens for a minute
# and fuzzes nothing in that time.
FUZZED = $(shell grep -roE '^func Fuzz[A-Za-z]+' --include='*_test.go' . | sed 's|/[^/]*:func |:|' | sort)

fuzz:
	for target in $(FUZZED); do \
	  go test -vet=off -run='^$$' -fuzz="^$${target#*:}$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=100x $${target%:*} || exit 1; done

# Fuzzes for NIGHT seconds, in equal shares, and continues after a finding. Only a failing input is
# a finding: see FUZZTIME.
NIGHT ?= 3600
fuzz-nightly:
	@found=0; log=$$(mktemp); for target in $(FUZZED); do \
	  go test -run='^$$' -fuzz="^$${target#*:}$$" -fuzztime=$$(($(NIGHT) / $(words $(FUZZED))))s -fuzzminimizetime=100x $${target%:*} >$$log 2>&1 && ended=well || ended=badly; \
	  echo "$$target $$ended: $$(grep -o 'execs: [0-9]*' $$log | tail -1)"; \
	  if [ $$ended = badly ]; then cat $$log; grep -q 'context deadline exceeded' $$log && ! grep -q 'Failing input' $$log || found=1; fi; \
	done; rm -f $$log; exit $$found

# Compares our predictions with the real programs: torch of three generations, its torchrun on
# test hosts, NCCL, and releases of DeepSpeed, whose launcher also starts real jobs. Downloads
# about 7 GB from PyPI the first time.
oracle: setup setup-docker build
	@if sh oracle/setup.sh; then go test -tags $(TAGS),oracle -timeout 90m -parallel $(ROWS_AT_ONCE) -run '$(ORACLE)' -v ./oracle $(OUTCOMES); \
	else echo "NOT RUN: the tests against real torch and NCCL, because these could not be installed"; fi

# Starts a cluster of N test hosts, which stays up until cluster-down (root, Linux).
cluster: setup-demo build bin/cluster
	bin/cluster up -name $(NAME) -n $(N)

cluster-down: bin/cluster
	bin/cluster down -name $(NAME)

# Tests the speeds that we promise, most of them as processor time relative to pdsh in the same run
# (root, Linux), in less than ten minutes. Then measures how long explain takes, and how soon the
# HTML report of 1,000 nodes responds in a browser. ROWS selects rows by name. The nodes have this
# machine's Python. Debian's python3-torch, which `make oracle` installs, costs each node 30 ms more
# than torch from PyPI, because it is linked to 289 libraries.
bench: setup setup-browser build
	go run ./testhosts/bench -n $(or $(HOSTS),64) -only '$(ROWS)'
	$(if $(ROWS),,go test -run "^$$" -bench Explain ./explain)
	$(if $(ROWS),,go test -run "^$$" -bench Browser -benchtime 10x ./report/html)

clean:
	rm -rf bin dist
