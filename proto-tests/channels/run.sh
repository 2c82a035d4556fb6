#!/usr/bin/env bash
# usage: run.sh BIN_DIR
#
# What people install, from the programs in BIN_DIR as if they were a release: the version in every channel, `install.sh`
# and the npm packages from a server on loopback into an empty HOME. What takes minutes (real targets, RPM,
# images, other channels) is in .ci/platforms. Without Python it says so and ends well, except where CI is set.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
# shellcheck disable=SC2034 # for step.sh
me=channels
# shellcheck source=../interop/step.sh
. "$here/../interop/step.sh"
ok() {
    echo "ok: $*"
}

if [ $# -ne 1 ] || [ ! -x "$1/switchboardd" ]; then echo "usage: run.sh BIN_DIR" >&2; exit 2; fi
command -v python3 >/dev/null || skip "python3 is missing"
python3 -c 'import tomllib' 2>/dev/null || skip "python3 is older than 3.11"
command -v strip >/dev/null || skip "strip is missing"
work=$(mktemp -d)
chmod 700 "$work"
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

# The same programs stand for every target: nothing but this machine's is run.
targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-apple-darwin aarch64-apple-darwin)
mkdir -p "$work/ship/${targets[0]}"
cp "$1"/switchboard{,d,-ctl,-guard} "$work/ship/${targets[0]}"
strip "$work/ship/${targets[0]}"/*
for target in "${targets[@]:1}"; do cp -lR "$work/ship/${targets[0]}" "$work/ship/$target"; done
mkdir -p "$work/notices/sbom"
echo "stands for the notices" >"$work/notices/THIRD-PARTY-NOTICES.txt"
export PACK_LEVEL=1 PACKAGES=none NOTICES=$work/notices DEBUG_PROGRAMS=1
"$source/deploy/dist" "$work/ship" "$work/dist" >/dev/null
"$source/deploy/check-versions" "$work/dist" || fail "versions differ"
ok "archives, packages and recipes of one version"

# The bundle for Claude Desktop, by the tool that packs bundles.
if command -v npx >/dev/null; then
    mkdir "$work/bundle"
    python3 -m zipfile -e "$work"/dist/*-aarch64-apple-darwin.mcpb "$work/bundle"
    npx --yes @anthropic-ai/mcpb@2.1.2 validate "$work/bundle/manifest.json" >"$work/said" 2>&1 || fail "mcpb: $(cat "$work/said")"
    ok "the bundle for Claude Desktop is valid"
fi

# The check itself: it finds a version that somebody forgot, an entry that the registry refuses, and a link that adds
# something else or is not the one of the docs.
finds() { # FILE EDIT MESSAGE
    rm -rf "$work/forgotten"
    cp -lR "$work/dist" "$work/forgotten"
    rm "$work/forgotten/channels/$1"
    sed "$2" "$work/dist/channels/$1" >"$work/forgotten/channels/$1"
    if "$source/deploy/check-versions" "$work/forgotten" 2>"$work/said"; then fail "$1 after $2: nothing was found"; fi
    grep -q "$3" "$work/said" || fail "$1 after $2: $(cat "$work/said")"
}
finds server.json 's/"version": "[^"]*"/"version": "99.0.0"/' "server.json: '99.0.0'"
finds server.json 's/"description": "/&a sentence that is much too long for this place, /' 'description of 1 to 100 characters'
finds server.json 's/"mcpb"/"dxt"/' 'kind'
finds links.md 's/name=switchboard/name=other/' "links.md: Add to Cursor: ('other'"
finds links.md 's/switchboard-mcp\/switchboard/switchboard-mcp\/another/' 'another'
finds links.md 's/vscode.dev/vscode.example/' 'docs/editors.md: links'
rm -rf "$work/forgotten"
ok "a wrong version, entry or link is found"

python3 "$here/server.py" "$work/dist" >"$work/address" &
server=$!
for _ in $(seq 100); do [ -s "$work/address" ] || sleep 0.1; done
address=$(cat "$work/address")
[ -n "$address" ] || fail "the server does not start"
version=$("$1/switchboard" --version)

# install.sh, as the one line of the documentation runs it: by `sh` from a pipe.
home() {
    mkdir -p "$work/$1"
    env -i HOME="$work/$1" USER=tester PATH="$PATH" SHELL=/bin/sh SWITCHBOARD_RELEASES="$address/releases" \
        npm_config_registry="$address/" npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false "${@:2}"
}
if [ "$(uname -sm)" = "Linux x86_64" ] || [ "$(uname -sm)" = "Linux aarch64" ]; then
    home one sh <"$source/deploy/install.sh" >"$work/said" || fail "install.sh: $(cat "$work/said")"
    grep -q "^$version is installed in $work/one/.local/bin\$" "$work/said" || fail "install.sh said: $(cat "$work/said")"
    for file in bin/switchboard bin/switchboardd bin/switchboard-ctl bin/switchboard-guard share/man/man1/switchboard.1 \
        share/bash-completion/completions/switchboard share/zsh/site-functions/_switchboard share/fish/vendor_completions.d/switchboard.fish; do
        [ -s "$work/one/.local/$file" ] || fail "install.sh: ~/.local/$file is missing"
    done
    "$source/deploy/smoke-test" "$work/one/.local/bin" >"$work/said" 2>&1 || fail "what install.sh installed: $(cat "$work/said")"
    home one env SWITCHBOARD_VERSION="${version#* }" sh <"$source/deploy/install.sh" >/dev/null || fail "install.sh, again and by number"
    ok "install.sh: installed into an empty HOME, used, installed again"

    archive=$(basename "$(echo "$work"/dist/*"$(uname -m)"-unknown-linux-musl.tar.gz)")
    cp "$work/dist/$archive" "$work/kept"
    # A hard link would change the copy, too.
    rm "$work/dist/$archive"
    { cat "$work/kept" && echo more; } >"$work/dist/$archive"
    if home two sh <"$source/deploy/install.sh" >"$work/said" 2>&1; then fail "install.sh took an archive with another checksum"; fi
    grep -q "is not what the release lists" "$work/said" || fail "install.sh said: $(cat "$work/said")"
    [ -z "$(ls -A "$work/two")" ] || fail "install.sh left something after a refusal: $(find "$work/two")"
    mv "$work/kept" "$work/dist/$archive"
    if home two env SWITCHBOARD_VERSION=0 SWITCHBOARD_RELEASES="$address/nothing" sh <"$source/deploy/install.sh" >"$work/said" 2>&1; then fail "no release, and no error"; fi
    grep -q "there is no release at" "$work/said" || fail "install.sh said: $(cat "$work/said")"
    ok "install.sh: an archive with another checksum is refused, and nothing is installed"
fi

# npm: the packages as they would be in the registry, with `npx` and with `npm install -g`.
if command -v npm >/dev/null; then
    package=@switchboard-mcp/switchboard
    cat >"$work/server.sh" <<'SERVER'
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
    case $line in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}' ;;
    *'"method":"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"word","inputSchema":{"type":"object"}}]}}' ;;
    *'"method":"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"a real answer"}]}}' ;;
    esac
done
SERVER
    mkdir -p "$work/three/.config/switchboard/mcps/n" "$work/three/.cursor"
    echo '{"http":{"listen":"off"}}' >"$work/three/.config/switchboard/switchboard.config.json"
    echo '{"name":"n","command":{"cmd":"/bin/sh","args":["'"$work"'/server.sh"]}}' >"$work/three/.config/switchboard/mcps/n/.mcp.json"
    home three npm exec --yes "$package" -- --version >"$work/said" 2>&1 || fail "npx: $(cat "$work/said")"
    grep -qx "$version" "$work/said" || fail "npx said: $(cat "$work/said")"
    # shellcheck disable=SC2094
    # The host's input stays open until its call is answered.
    {
        printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' \
            '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
            '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"n_suite","arguments":{"action":"call","subtool":"word","args":{}}}}'
        for _ in $(seq 300); do
            if grep -q '"id":2' "$work/answers" 2>/dev/null; then break; fi
            sleep 0.1
        done
    } | home three npm exec --yes "$package" -- --socket "$work/s" >"$work/answers" 2>&1 || fail "a call through npx: $(cat "$work/answers")"
    home three npm exec --yes "$package" -- --socket "$work/s" stop >/dev/null 2>&1 || fail "stop through npx"
    grep -q 'a real answer' "$work/answers" || fail "a call through npx: $(cat "$work/answers")"
    ok "npx: fetched into an empty HOME, a real call, stopped"

    # npm may empty its cache: what editors are told to start is a copy.
    home three npm exec --yes "$package" -- setup --yes --host cursor >"$work/said" 2>&1 || fail "npx setup: $(cat "$work/said")"
    grep -q "\"$work/three/.local/bin/switchboard\"" "$work/three/.cursor/mcp.json" || fail "npx setup: $(cat "$work/three/.cursor/mcp.json")"
    ok "npx setup: editors start a copy in ~/.local/bin"

    home four npm install --silent --global --prefix "$work/four/npm" "$package" >"$work/said" 2>&1 || fail "npm install: $(cat "$work/said")"
    [ "$(home four "$work/four/npm/bin/switchboard" --version)" = "$version" ] || fail "npm install -g"
    [ "$(find "$work/four/npm" -type d -name 'switchboard-*-*' | wc -l)" = 1 ] || fail "packages of other platforms are installed, too"
    home four npm install --silent --omit=optional --prefix "$work/four/without" "$package" >/dev/null 2>&1
    if home four node "$work/four/without/node_modules/$package/bin/switchboard.js" --version >"$work/said" 2>&1; then fail "it ran without its programs"; fi
    grep -q 'is missing: npm was told' "$work/said" || fail "without optional packages: $(cat "$work/said")"
    ok "npm install -g: only this platform's package; without it the reason is said"
else
    echo "skipped: npm is missing"
fi

echo "channels: all is well"
