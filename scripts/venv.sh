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
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@" 2>> "$venv/pip.log"; }
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

# Turns pip's lines into one that counts; in a log file, into one for every fiftieth package.
progress() {
  local live="" n=0 total line name
  total="$(grep -c == "$lock")"
  [ -t 1 ] && live=1
  show() { if [ "$live" ]; then printf '\r\033[K      %s' "$1"; else printf '      %s\n' "$1"; fi; }
  while IFS= read -r line; do
    name="${line#* }" name="${name%% *}" name="${name##*/}"
    case "$line" in
      "Requirement already satisfied"*) n=$((n + 1)) ;;
      Collecting* | Processing*)
        n=$((n + 1))
        if [ "$live" ] || [ $((n % 50)) = 0 ]; then show "package $n of $total: $name"; fi ;;
      *Downloading*MB*) if [ "$live" ]; then show "package $n of $total: ${line##*/}"; fi ;;
      "Installing collected packages"*) show "unpacking, about a minute" ;;
    esac
  done
  if [ "$live" ]; then printf '\r\033[K'; fi
}

# Nothing is compiled ahead: that takes a minute for modules of which few are ever imported.
install_torch() {
  local torch
  torch="$(pinned torch)"
  pip install --no-compile --no-deps --only-binary :all: "$torch" | progress && return
  say "      the configured package sources have no $torch; taking it from PyTorch's CPU index"
  pip install --no-compile --no-deps --only-binary :all: --index-url "$torch_cpu_index" "$torch" | progress
}

# pyserini has no wheel: it is packed by the setuptools of the lock, which therefore comes first.
install_packages() {
  pip install --quiet --no-deps "$(pinned setuptools)"
  pip install --no-compile --no-deps --no-build-isolation --requirement "$lock" | progress
}

# What an earlier lock brought and this one doesn't.
remove_leftovers() {
  local names='s/[-_.][-_.]*/-/g; s/.*/\L&/' leftovers
  leftovers="$(comm -23 \
    <(pip list --format=freeze --exclude-editable | sed 's/==.*//' | grep -vx pip | sed "$names" | sort) \
    <(sed -n 's/==.*//p' "$lock" | sed "$names" | sort))"
  [ -z "$leftovers" ] || pip uninstall --quiet --yes $leftovers
}

report() {
  grep '^ERROR' "$venv/pip.log" | cut -c 1-300 | tail -n 3 >&2
  fail "$venv could not be made: the whole story is in $venv/pip.log; run the same command again to go on."
}

usable && [ "$(cat "$venv/made-from" 2> /dev/null)" = "$(fingerprint)" ] && exit 0
case "$(uname -sm)" in
  "Linux x86_64") ;;
  *) fail "requirements/cpu.txt is locked for Linux on x86-64, not for $(uname -sm): use a container or another machine." ;;
esac

python="$(python_3_11)"
say "bringing $venv to what $lock says; the first time some 4 GB and two to three minutes, downloads apart"
say "[1/4] a virtual environment with $("$python" --version)"
usable || "$python" -m venv --clear "$venv"
trap '[ $? = 0 ] || report' EXIT
rm -f "$venv/pip.log"
say "[2/4] the CPU build of torch"
install_torch
say "[3/4] the packages of $lock"
install_packages
remove_leftovers
say "[4/4] the project itself"
pip install --quiet --no-deps --no-build-isolation --editable .
fingerprint > "$venv/made-from"
say "$venv is ready"
