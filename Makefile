# What CI runs stands in .ci/run; these are its parts and what is longer.
GOTOOL := go tool -modfile=tools/go.mod

.PHONY: check lint test full dist size test-times race race-central bench fuzz demo chaos churn soak clients ring papers sim explore brokers screenshots vuln

check: lint test ## what must hold before a commit

lint: ## format, vet, linters and the arrows between packages
	$(GOTOOL) golangci-lint run ./...

test: ## every test, as in README
	go test ./...

full: ## every test, also the long ones, with all of its seeds, rounds and searches, of which go test takes a share
	PADME_FULL=1 go test -count=1 -timeout 1h ./...

size: ## lines of code, comments and blank ones of each package, tests apart; words of the docs
	go run ./tests/size

test-times: ## the tests with the seconds of each package and of the slowest tests (ARGS='-short ./...' for fewer)
	./.ci/times $(ARGS)

race: ## every test again, with the race detector and in another order
	go test -race -shuffle=on ./...

bench: ## the figures of docs/performance.md
	go test -run '^$$' -bench . -benchtime 2s ./qosmutex/... ./pubsub/...

race-central: ## the lock next to a naive central server, by turns: ratios (ROUNDS=40 for more)
	go test -count=1 -timeout 0 -v -run TestRace ./tests/central -rounds $(or $(ROUNDS),15) -round 400ms

fuzz: ## every decoder, one minute each (FUZZTIME=10m for longer)
	./.ci/fuzz $(or $(FUZZTIME),1m)

demo: ## twenty seconds of the search-and-rescue scenario
	go run ./cmd/rescue-demo --duration 20s

chaos: ## a minute in which robots, root and broker of the scenario are killed
	go run ./cmd/rescue-demo --processes --chaos

soak: ## processes under random faults, watched for leaks (DURATION=1h for longer, SEED=2 for others)
	go test -count=1 -timeout 0 -v -run TestSoak ./tests/soak -soak.duration $(or $(DURATION),1m) -soak.seed $(or $(SEED),1)

churn: ## a deployment with members that come and go (DURATION=10m; KILL=1 kills processes; VOTERS=1 on mosquitto)
	go test -count=1 -timeout 0 -v ./tests/churn -churn.duration $(or $(DURATION),1m) $(if $(KILL),-churn.kill) $(if $(VOTERS),-churn.voters)

clients: ## ten thousand JSON clients on one serve, which is killed: memory of each, requests a second (CLIENTS=500 for fewer)
	go test -count=1 -parallel 1 -v -run 'Fleet|Throughput|FirstUse|Crowd|Commands' ./tests/clients -fleet $(or $(CLIENTS),10000)

RING ?= 100,300,1000

ring: ## what it costs that 100, 300 and 1,000 participants find each other (RING=100,200 for others)
	go test -count=1 -v ./tests/ring -ring $(RING)

brokers: ## the tests of pubsub, qosmutex and the algorithms on mosquitto, RabbitMQ and a NATS cluster (PADME_BROKERS=nats for one)
	./.ci/brokers

screenshots: ## the pictures of the pages in docs/img; they need chromium and npm ci --prefix tests/browser/js
	mkdir -p docs/img
	go test -count=1 ./tests/browser -run Screenshots -shots $(CURDIR)/docs/img

vuln: ## known vulnerabilities in what the programs link, by https://vuln.go.dev (DB=/path/to/database for a copy)
	./.ci/vuln $(DB)

papers: ## every figure and table of the papers again, into docs/results
	go run ./tests/papers/figures -out docs/results

sim: ## PADME under faults: 10,000 seeds, or HOURS=1 for an hour
	go test -v -count=1 -timeout 0 ./tests/simulation $(if $(HOURS),-hours $(HOURS),-seeds 10000)

explore: ## the model checkers, a quarter of an hour of two cores and 7 GB; go test does what takes seconds
	go test ./qosmutex/explore -run TestExplore -full -v -timeout 0
	go test ./qosmutex/lease -run TestModel -model.all -v -timeout 0

PLATFORMS := linux/amd64 linux/arm64 linux/arm windows/amd64
dist: ## static, reproducible pubsub-node for linux (amd64, arm64, armv7) and windows into dist, with checksums
	@set -e; mkdir -p dist; for p in $(PLATFORMS); do \
		os=$${p%/*}; arch=$${p#*/}; end=; [ $$os = windows ] && end=.exe; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch GOARM=7 go build -buildvcs=auto -trimpath -ldflags='-s -w -buildid=' -o dist/pubsub-node-$$os-$$arch$$end ./cmd/pubsub-node; \
	done; cd dist && sha256sum pubsub-node-* >SHA256SUMS && cat SHA256SUMS
