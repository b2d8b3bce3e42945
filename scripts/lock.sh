#!/usr/bin/env bash
# Writes requirements/cpu.txt and gpu.txt from pyproject.toml (`make lock`). Pins that still fit are
# kept; UPGRADE=1 takes the newest of everything. Nothing of this machine enters the files.
set -euo pipefail
cd "$(dirname "$0")/.."

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3.11}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv"

# Wheels only, but for pyserini, which has none: installing must never compile. The youngest C
# library that a wheel of the set asks for (llguidance) is that of manylinux_2_31.
resolve() { # EXTRA
  "$work/venv/bin/uv" pip compile pyproject.toml --extra "$1" --extra dev \
    --overrides "requirements/overrides-$1.txt" \
    --python-version 3.11 --python-platform x86_64-manylinux_2_31 \
    --only-binary :all: --no-binary pyserini \
    --annotation-style line --no-header --quiet ${UPGRADE:+--upgrade} --output-file "$work/$1.txt"
}

lock() { # EXTRA, BUILD (the local version that torch is pinned to, or nothing), NOTE
  echo "requirements/$1.txt"
  sed 's/^\(torch==[0-9.]*\)+cpu/\1/' "requirements/$1.txt" > "$work/$1.txt" 2>/dev/null || true
  resolve "$1"
  {
    echo "# Written by \`make lock\` from pyproject.toml (extras $1 and dev) and overrides-$1.txt; don't edit."
    echo "# Python 3.11, Linux on x86-64, glibc 2.31 or newer. Install with \`pip install --no-deps\`: $3"
    printf -- '--only-binary :all:\n--no-binary pyserini\n\n'
    sed "s/^\(torch==[0-9.]*\)/\1$2/" "$work/$1.txt"
  } > "$work/$1.lock"
  mv "$work/$1.lock" "requirements/$1.txt"
}

lock cpu "+cpu" "\`make venv\`."
lock gpu "" "UNTRIED, see docs/environment.md."
