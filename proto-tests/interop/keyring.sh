#!/usr/bin/env bash
# usage: keyring.sh BIN_DIR
#
# Secrets in a real keyring: gnome-keyring on a D-Bus and in a HOME of its own. Debian packages that are missing are
# installed where we are root; where they cannot be had it says so and ends well, except where CI is set.
# shellcheck disable=SC2016 # the programs put names in backticks
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

me=keyring
# shellcheck source=step.sh
. "$here/step.sh"
have() {
    command -v gnome-keyring-daemon >/dev/null && command -v dbus-run-session >/dev/null && command -v dbus-send >/dev/null
}

[ $# -ge 1 ] && [ -x "$1/switchboardd" ] && [ -x "$1/switchboard" ] && [ -x "$1/switchboard-ctl" ] && [ -x "$1/switchboard-guard" ] || {
    echo "usage: keyring.sh BIN_DIR, with \`switchboardd\` and \`switchboard\` in it" >&2
    exit 2
}
bin=$(cd "$1" && pwd)

if [ "${2:-}" != --inside ]; then
    [ "$(uname)" = Linux ] || skip "the Secret Service is a thing of Linux"
    have || debian gnome-keyring dbus
    have || skip "gnome-keyring or dbus missing (Debian, Ubuntu: apt install gnome-keyring dbus)"
    home=$(mktemp -d)
    trap 'rm -rf "$home"' EXIT
    mkdir -m 700 "$home/run"
    # A bus where nothing is started on demand: neither another keyring nor a window that asks somebody.
    cat >"$home/bus.conf" <<EOF
<busconfig>
  <type>session</type>
  <listen>unix:dir=$home/run</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
EOF
    env -i HOME="$home" USER="$(id -un)" PATH="$PATH" XDG_RUNTIME_DIR="$home/run" \
        timeout 120 dbus-run-session --config-file="$home/bus.conf" -- bash "$here/keyring.sh" "$bin" --inside
    exit
fi

cd "$HOME"
file=$HOME/.local/state/switchboard/secrets/secrets.json
keyring=
mkfifo ask

begin_keyring() {
    printf 'a password' | gnome-keyring-daemon --foreground --unlock --components=secrets >/dev/null 2>>keyring.log &
    keyring=$!
    for _ in $(seq 200); do
        case $(dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus / \
            org.freedesktop.DBus.NameHasOwner string:org.freedesktop.secrets) in
        *true*) return ;;
        esac
        sleep 0.05
    done
    fail "gnome-keyring did not come up: $(cat keyring.log)"
}
end_keyring() {
    [ -n "$keyring" ] || return 0
    kill "$keyring" 2>/dev/null || true
    kill -CONT "$keyring" 2>/dev/null || true
    wait "$keyring" 2>/dev/null || true
    keyring=
}
trap end_keyring EXIT

# What a command says and its exit code; no value may be in it.
says() {
    local said code=0
    said=$("$bin/switchboard" secret "$@" 2>&1) || code=$?
    case $said in *hunter*) fail "\`$*\` shows a value: $said" ;; esac
    echo "$code $said"
}
# The helper's answer, as the daemon asks for it: with its standard input held open.
asks() {
    exec 3<>ask
    echo "{\"order\":\"get\",\"names\":[$1]}" >&3
    "$bin/switchboard-ctl" --keyring <&3
    exec 3>&-
}
expect() {
    # shellcheck disable=SC2254 # a pattern
    case $2 in
    $1) echo "ok: $3" ;;
    *) fail "$3: $2" ;;
    esac
}

expect '0 stored `EARLY` in a file that only you can read?the keyring can?t be used: *' "$(says set EARLY <<<hunter0)" "no keyring on the bus: a private file"

begin_keyring
expect '0 stored `TOKEN` in the keyring' "$(says set TOKEN <<<hunter1)" "a keyring takes the value"
expect '*TOKEN*keyring*' "$(says ls)" "it is listed there"
grep -q hunter1 "$file" && fail "the value is in the file too"
expect '{"Ok":{"values":{"TOKEN":"hunter1"}}}' "$(asks '"TOKEN","NONE"')" "the value comes back"
expect '0 stored `TOKEN` in the keyring' "$(says set TOKEN <<<'hünter "2"')" "a second value replaces it"
expect '{"Ok":{"values":{"TOKEN":"hünter \\"2\\""}}}' "$(asks '"TOKEN"')" "and comes back"
expect '0 stored `EARLY` in the keyring' "$(says set EARLY <<<hunter3)" "one from the file moves over"
grep -q hunter "$file" && fail "a value is left in the file"
long=$(head -c 65536 /dev/zero | tr '\0' x)
expect '0 stored `LONG` in the keyring' "$(says set LONG <<<"$long")" "64 KiB go in"
[ "$(asks '"LONG"')" = "{\"Ok\":{\"values\":{\"LONG\":\"$long\"}}}" ] || fail "64 KiB do not come out again"
expect '0 removed `LONG`' "$(says rm LONG)" "a secret is removed"
expect '{"Ok":{"values":{}}}' "$(asks '"LONG"')" "and gone from the keyring"
expect '1 *there is no secret `LONG`*' "$(says rm LONG)" "nothing is removed twice"

dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets \
    org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/collection/login >/dev/null
expect '{"Err":"it is locked and was not unlocked"}' "$(asks '"TOKEN"')" "a locked keyring says so"
expect '1 *secret `TOKEN` stands in the keyring, which gave nothing: it is locked*' "$(says rm TOKEN)" "and lets nothing go"
expect '0 *EARLY*keyring*TOKEN*keyring*' "$(says ls)" "nothing is forgotten meanwhile"
expect '0 stored `LATE` in a file that only you can read?the keyring can?t be used: it is locked*' "$(says set LATE <<<hunter4)" "a new one goes into the file"
expect '*the keyring still holds an older value of `EARLY`' "$(says set EARLY <<<hunter5)" "an older value is mentioned"

end_keyring
expect '{"Err":"*' "$(asks '"TOKEN"')" "a keyring that went away is an error"
expect '1 *secret `TOKEN` stands in the keyring, which gave nothing: *' "$(says rm TOKEN)" "that names the secret"

begin_keyring
expect '{"Ok":{"values":{"TOKEN":"hünter \\"2\\""}}}' "$(asks '"TOKEN"')" "the next keyring has it still"
expect '0 removed `TOKEN`' "$(says rm TOKEN)" "and lets it go"
expect '{"Ok":{"values":{}}}' "$(asks '"TOKEN"')" "for good"
# The helper goes when whoever asked does, whatever the keyring is doing.
kill -STOP "$keyring"
sleep 60 >ask &
holder=$!
"$bin/switchboard-ctl" --keyring <ask >/dev/null &
helper=$!
exec 3>ask
echo '{"order":"get","names":["EARLY"]}' >&3
exec 3>&-
kill "$holder"
code=0
wait "$helper" || code=$?
expect 1 "$code" "a helper that nobody waits for ends"
echo "keyring: all is well"
