#!/usr/bin/env bash
# Makes .venv what requirements/cpu.txt says and installs the project into it (`make venv`).
# Does nothing where that is done; takes up where it was interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
lock=requirements/cpu.txt
torch_cpu_index=https://download.pytorch.org/whl/cpu

say() { printf '%s\n' "mrag: $*"; }
fail() { say "$*" >&2; exit 1; }
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }
pinned() { sed -n "s/^\($1==[^ ]*\).*/\1/p" "$lock"; }
fingerprint() { cat "$lock" pyproject.toml | sha256sum | cut -d ' ' -f 1; }

# A virtual environment works only where it was made: a moved or copied one is made again.
usable() { grep -qF " $(pwd -P)/$venv" "$venv/pyvenv.cfg" && pip --version; } > /dev/null 2>&1

python_3_11() {
  local candidate
  for candidate in ${PYTHON:-python3.11 python3 python}; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2> /dev/null || continue
    echo "$candidate"
    return
  done
  fail "Python 3.11 is needed and was not found: install it, or name it by PYTHON=/path/to/python3.11."
}

# What pip's configuration says of a setting: its environment before its section `install` before `global`.
pip_says() {
  local section
  for section in :env: install global; do
    sed -n "s/^$section\.$1='\(.*\)'\$/\1/p" <<< "$pip_config" | sed 's/\\n/ /g' | grep . && return
  done || true
}

# uv installs in seconds what takes pip minutes. It neither reads pip's configuration nor treats all
# sources alike, as pip does: it is told to.
uv_sources() {
  local word
  echo --index-strategy unsafe-best-match
  for word in $(pip_says index-url); do echo --default-index "$word"; done
  for word in $(pip_says extra-index-url); do echo --index "$word"; done
  for word in $(pip_says find-links); do echo --find-links "$word"; done
  for word in $(pip_says trusted-host); do echo --allow-insecure-host "$word"; done
}

# Of its report, the lines of packages below 10 MiB are left out.
uv() {
  local certificates proxy
  certificates="$(pip_says cert)" proxy="$(pip_says proxy)"
  env ${certificates:+"SSL_CERT_FILE=$certificates"} ${proxy:+"ALL_PROXY=$proxy"} \
    "$venv/bin/uv" pip "$@" --python "$venv/bin/python" --no-build-isolation \
    2> >(grep --line-buffered -vE '^ [+~-] |Downloaded |\(([0-9.]+KiB|[0-9]\.[0-9]MiB)\)' | sed -u 's/^/      /')
}

# pyserini has no wheel: it is packed by the setuptools of the lock, which therefore comes first.
install_torch() {
  local torch
  torch="$(pinned torch)"
  uv install --no-deps $sources "$(pinned setuptools)" "$torch" && return
  say "      the configured package sources have no $torch; taking it from PyTorch's CPU index"
  uv install --no-deps $sources "$(pinned setuptools)"
  uv install --no-deps --default-index "$torch_cpu_index" "$torch"
}

usable && [ "$(cat "$venv/made-from" 2> /dev/null)" = "$(fingerprint)" ] && exit 0
case "$(uname -sm)" in
  "Linux x86_64") ;;
  *) fail "requirements/cpu.txt is locked for Linux on x86-64, not for $(uname -sm): use a container or another machine." ;;
esac

python="$(python_3_11)"
say "bringing $venv to what $lock says: some 3 GB"
say "[1/4] a virtual environment with $("$python" --version)"
usable || "$python" -m venv --clear "$venv"
trap '[ $? = 0 ] || fail "$venv could not be made, for the reason above: run the same command again to go on."' EXIT
pip install -qq --no-deps "$(pinned uv)"
pip_config="$(pip config list)" sources="$(uv_sources)"
say "[2/4] the CPU build of torch"
install_torch
say "[3/4] the packages of $lock"
uv sync $sources "$lock"
say "[4/4] the project itself"
uv install --no-deps $sources --editable .
fingerprint > "$venv/made-from"
say "$venv is ready"
