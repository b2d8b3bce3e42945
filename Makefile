# The two commands of this repository are `make quickstart` and `make test`.
VENV_PYTHON := .venv/bin/python

# What starts clusters and engines has the machine to itself; the rest shares two processes, a file to each.
TOGETHER := tests/unit tests/contract tests/golden
tests = $(VENV_PYTHON) -m pytest $(1) -n 2 --dist loadfile $(TOGETHER) && \
	$(VENV_PYTHON) -m pytest $(1) $(addprefix --ignore=,$(TOGETHER))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv quickstart serve ask test test-full lint types imports format lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: ## make .venv from requirements/cpu.txt (nothing to do if it is as locked)
	@bash scripts/venv.sh

quickstart: venv ## index the sample corpus, serve it, ask three questions (DOCS=folder: your own, asked nothing)
	@$(VENV_PYTHON) -m jobs.quickstart $(if $(DOCS),--docs "$(DOCS)")

serve: venv ## the same without the questions, and keep serving until Ctrl-C (DOCS=folder)
	@$(VENV_PYTHON) -m jobs.quickstart --keep --questions 0 $(if $(DOCS),--docs "$(DOCS)")

ask: venv ## ask a running service (Q="...", COLLECTION=name, READER=plain, URL=http://...)
	@: $(or $(Q),$(error Write the question: make ask Q="..."))
	@$(VENV_PYTHON) -m jobs.questions "$(Q)" $(if $(COLLECTION),--collection "$(COLLECTION)") $(if $(READER),--reader $(READER)) $(if $(URL),--url "$(URL)")

test: lint types imports ## lint, types, import rules and the test suite (under 20 minutes)
	$(call tests,-m "not slow")

test-full: lint types imports ## the same with the long runs (under 60 minutes)
	$(call tests,)

lint: venv ## style and format, without changing a file
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .

types: venv ## mypy, strict
	$(VENV_PYTHON) -m mypy

imports: venv ## who may import whom (the contracts are in pyproject.toml)
	@.venv/bin/lint-imports --no-logo

format: venv ## format and sort imports in place
	$(VENV_PYTHON) -m ruff check --fix .
	$(VENV_PYTHON) -m ruff format .

lock: ## write requirements/*.txt from pyproject.toml (UPGRADE=1: newest versions)
	@UPGRADE=$(UPGRADE) bash scripts/lock.sh

clean: ## remove caches and build outputs; .venv, collections and weights stay
	rm -rf dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
