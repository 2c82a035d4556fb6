#!/usr/bin/env bash
# Installs the pinned npm and PyPI packages of the interop tests into .cache/ beside this file, and does
# nothing if they are there already. Exit codes: 0 there, 77 skipped (a program is missing), 1 failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/.cache

skip() {
    echo "skipped: $*" >&2
    exit 77
}
fail() {
    echo "interop: $*" >&2
    exit 1
}

command -v node >/dev/null || skip "node missing (20 or newer is needed)"
command -v npm >/dev/null || skip "npm missing"
command -v python3 >/dev/null || skip "python3 missing (3.10 or newer is needed)"
command -v git >/dev/null || skip "git missing"
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || skip "node $(node -v) is too old (20 or newer is needed)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    skip "$(python3 --version) is too old (3.10 or newer is needed)"
# Debian and Ubuntu ship these two apart from python3 itself.
python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv (Debian, Ubuntu: apt install python3-venv)"

# What is installed depends on the pins and on the two interpreters, and on nothing else.
stamp=$({
    cat "$here/package-lock.json" "$here/requirements.txt"
    node -p 'process.version + process.arch'
    python3 -c 'import sys; print(sys.version, sys.base_prefix)'
} | git hash-object --stdin)

if [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

echo "interop: installing the pinned packages" >&2
rm -rf "$cache"
mkdir -p "$cache/npm"
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$cache/npm/"
(cd "$cache/npm" && npm ci --no-progress --loglevel=error >&2) || fail "npm could not install what package-lock.json pins"
python3 -m venv "$cache/python" >&2 || fail "python3 -m venv failed"
"$cache/python/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
    -r "$here/requirements.txt" >&2 || fail "pip could not install what requirements.txt pins"
echo "$stamp" >"$cache/stamp"
