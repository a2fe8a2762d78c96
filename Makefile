# `make demo` and `make test` do everything on a fresh machine, with or without a GPU.
#
# To use an environment that is there already, such as a container image with its own PyTorch:
#   make test PYTHON=python3 VENV=

VENV   ?= .venv
PYTHON ?=
ARGS   ?=# for the command behind a target: make test ARGS="-k gate"

ifeq ($(strip $(VENV)),)
PYTHON := $(or $(PYTHON),python3)
RUN    := PYTHONPATH=$(CURDIR)/src $(PYTHON)
READY  :=
else
RUN    := $(VENV)/bin/python
READY  := $(VENV)/.ready
endif

VLLM_VENV ?= .venv-vllm

.PHONY: help setup demo test test-vllm lint bench
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

setup: $(READY)  ## make the environment in .venv (the other targets do it when it is missing)
	@echo "$(VENV) is ready"

demo: $(READY)  ## build the decode steps of a serving trace by both paths
	$(RUN) -m onelaunch demo $(ARGS)

test: $(READY)  ## all tests; those that need a GPU are skipped without one
	$(RUN) -m pytest $(ARGS)

test-vllm: $(VLLM_VENV)/.ready  ## the plug-in against vLLM's own code, on the CPU, in an environment of its own
	PYTHONPATH=src $(VLLM_VENV)/bin/python -m pytest -W ignore tests/vllm_plugin $(ARGS)

lint: $(READY)  ## ruff and mypy
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

bench: $(READY)  ## time the builds on this machine
	$(RUN) -m onelaunch bench $(ARGS)

# The first Python that is new enough and can make an environment (Debian splits ensurepip off).
define make_env
	@for python in $(PYTHON) python3 python3.11 python3.12 python3.13 python3.14; do \
		$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
			&& exec $$python tools/setup_env.py $(1); \
	done; \
	echo "no Python 3.11 or newer with venv found: name one with make PYTHON=..." >&2; exit 1
endef

$(VENV)/.ready: pyproject.toml tools/setup_env.py
	$(call make_env,$(VENV))

$(VLLM_VENV)/.ready: tests/vllm_plugin/contract/requirements.txt tools/setup_env.py
	$(call make_env,$(VLLM_VENV) --vllm)
