#!/usr/bin/env bash
# Installs the pinned npm and PyPI packages of the interop tests into .cache/ beside this file, and does
# nothing if they are there already. `.cache/node` is the Node to use.
# Exit codes: 0 there, 77 skipped (a program is missing), 1 failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/.cache
me=interop
# shellcheck source=../node/node.sh
. "$here/../node/node.sh"

command -v python3 >/dev/null || skip "python3 missing (3.10 or newer is needed)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    skip "$(python3 --version) is too old (3.10 or newer is needed)"
# Debian and Ubuntu ship these two apart from python3 itself.
python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv (Debian, Ubuntu: apt install python3-venv)"

# What is installed depends on the pins and on the two interpreters, and on nothing else.
stamp=$({
    cat "$here/package-lock.json" "$here/requirements.txt"
    "$NODE" -p 'process.execPath + process.version + process.arch'
    python3 -c 'import sys; print(sys.version, sys.base_prefix)'
} | git hash-object --stdin)

if [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

echo "interop: installing the pinned packages" >&2
rm -rf "$cache"
npm_ci "$here" "$cache/npm"
python3 -m venv "$cache/python" >&2 || fail "python3 -m venv failed"
"$cache/python/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
    -r "$here/requirements.txt" >&2 || fail "pip could not install what requirements.txt pins"
ln -s "$NODE" "$cache/node"
echo "$stamp" >"$cache/stamp"
