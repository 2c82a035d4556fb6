#!/usr/bin/env bash
# usage: service.sh BIN_DIR
#
# The daemon as a service of a real systemd user manager, which runs in a mount and process namespace of its own. That
# takes root (or `sudo` without a password). Where none can run it says so and ends well: `tests/activation.rs` has the
# same with an activator and a notify socket of its own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

me=service
# shellcheck source=step.sh
. "$here/step.sh"
# No manager can run here, which is nobody's fault.
cannot() {
    echo "skipped: $*; see tests/activation.rs" >&2
    exit 0
}
# Looks again and again, for 40 s at most.
await() {
    local what=$1
    shift
    for _ in $(seq 800); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.05
    done
    fail "$what: not within 40 s"
}

[ $# -ge 1 ] && [ -x "$1/switchboardd" ] && [ -x "$1/switchboard" ] && [ -x "$1/switchboard-ctl" ] && [ -x "$1/switchboard-guard" ] && [ -x "$1/evil-child" ] || {
    echo "usage: service.sh BIN_DIR, with \`switchboardd\`, \`switchboard\` and \`evil-child\` in it" >&2
    exit 2
}
bin=$(cd "$1" && pwd)

if [ "${2:-}" != --inside ]; then
    [ "$(uname)" = Linux ] || cannot "systemd is a thing of Linux"
    for tool in systemctl unshare; do
        command -v $tool >/dev/null || cannot "\`$tool\` missing (Debian, Ubuntu: apt install systemd util-linux)"
    done
    root=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || cannot "a user manager of its own takes root"
        root=(sudo -n)
    fi
    "${root[@]}" unshare --mount --pid --fork --mount-proc true 2>/dev/null || cannot "namespaces are not permitted here"
    home=$(mktemp -d /tmp/sb-service-XXXXXX)
    chmod 755 "$home"
    trap '"${root[@]}" rm -rf "$home"' EXIT
    "${root[@]}" env -i PATH="$PATH" HOME="$home" USER=root LOGNAME=root SHELL=/bin/sh \
        timeout 240 unshare --mount --pid --fork --mount-proc bash "$here/service.sh" "$bin" --inside
    exit
fi

# Inside: nothing here outlives the first process of the namespace.
mount -t tmpfs tmpfs /run
mkdir -p /run/user /run/systemd/system
mkdir -m 700 /run/user/0
export XDG_RUNTIME_DIR=/run/user/0
manager=/lib/systemd/systemd
[ -x $manager ] || manager=/usr/lib/systemd/systemd
SYSTEMD_LOG_TARGET=console $manager --user >"$HOME/manager.log" 2>&1 &
for _ in $(seq 800); do
    systemctl --user show --property Version >/dev/null 2>&1 && break
    sleep 0.05
done
systemctl --user show --property Version >/dev/null 2>&1 || cannot "no user manager came up: $(tail -n 3 "$HOME/manager.log")"

mkdir -p "$HOME/.local/bin" "$HOME/.config/switchboard/mcps/k"
cp "$bin"/switchboard{,d,-ctl,-guard} "$HOME/.local/bin"
export PATH="$HOME/.local/bin:$PATH"
echo '{"http":{"listen":"off"}}' >"$HOME/.config/switchboard/switchboard.config.json"
echo "{\"name\":\"k\",\"command\":{\"cmd\":\"$bin/evil-child\",\"args\":[\"echo\"]}}" >"$HOME/.config/switchboard/mcps/k/.mcp.json"
cd "$HOME"

expect() {
    # shellcheck disable=SC2254 # a pattern
    case $2 in
    $1) echo "ok: $3" ;;
    *) fail "$3: $2" ;;
    esac
}
says() {
    local said code=0
    said=$("$@" 2>&1) || code=$?
    echo "$code $said"
}
property() {
    systemctl --user show --value --property "$1" "$2"
}
main_pid() {
    property MainPID switchboardd.service
}
is_other() {
    local now
    now=$(main_pid)
    [ "$now" -gt 0 ] && [ "$now" != "$1" ]
}

under_way() {
    switchboard status --json | grep -q '"inFlight": 1'
}

# A host: one shim that stays, whatever becomes of the daemon.
coproc host { exec switchboard; }
exec 5>&"${host[1]}" 6<&"${host[0]}"
id=0
answer=
send() {
    id=$((id + 1))
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":\"$1\",\"params\":$2}" >&5
}
begin() {
    send tools/call "{\"name\":\"k_suite\",\"arguments\":{\"action\":\"call\",\"subtool\":\"$1\",\"args\":$2}}"
}
# What comes in between are notifications.
receive() {
    while read -r -t 40 -u 6 answer; do
        case $answer in *"\"id\":$id,"* | *"\"id\":$id}"*) return ;; esac
    done
    fail "no answer to $id"
}
call() {
    begin "$@"
    receive
}

send initialize '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"service.sh","version":"1"}}'
receive
call echo '{}'
expect '*"ok":true*' "$answer" "a shim starts the daemon by itself"
expect '0 *"installed": false*' "$(says switchboard service status --json)" "no service yet"
expect '1 *build folder*' "$(says "$bin/switchboardd" service install)" "a build folder is refused"
expect '0 would write *would have the daemon*would systemctl --user enable --now*' "$(says switchboard service install --dry-run | tr '\n' ' ')" "a dry run says what would be done"
[ ! -e .config/systemd ] || fail "a dry run wrote something"

begin slow '{"ms":2500}'
await "the call to begin" under_way
expect '0 *the service is installed*' "$(says switchboard service install)" "it is installed"
receive
expect '*"ok":true*' "$answer" "the call that was under way finished"
call echo '{}'
expect '*"ok":true*' "$answer" "the same shim goes on"
expect 'enabled' "$(property UnitFileState switchboardd.socket)" "the socket is enabled"
expect 'active' "$(property ActiveState switchboardd.service)" "systemd started the daemon, which said READY"
expect '*1 suite, 1 session*' "$(property StatusText switchboardd.service)" "and how things stand"
expect '0 *"enabled": true*"kept": '"$(main_pid)"'*' "$(says switchboard service status --json | tr '\n' ' ')" "the status has it all"
said=$(says switchboard service install --json | tr -d ' \n')
expect '0{*"steps":\[\]}' "$said" "a second time there is nothing to do"

pid=$(main_pid)
begin slow '{"ms":1500}'
await "the call to begin" under_way
systemctl --user restart switchboardd
receive
expect '*"ok":true*' "$answer" "a restart waits for the call that is under way"
is_other "$pid" || fail "it was not restarted"
call echo '{}'
expect '*"ok":true*' "$answer" "and the next one comes over"
expect '0 ' "$(says systemctl --user reload switchboardd)" "it can be told to read everything again"

pid=$(main_pid)
kill -9 "$pid"
await "another daemon" is_other "$pid"
call echo '{}'
expect '*"ok":true*' "$answer" "a killed one is back"

pid=$(main_pid)
config=.config/switchboard/switchboard.config.json
mv $config kept.json
echo broken >$config
systemctl --user restart switchboardd
await "another daemon" is_other "$pid"
call echo '{}'
expect '*"ok":true*' "$answer" "with a broken config the last good one is used"
expect '*"problems":*switchboard.config.json*' "$(says switchboard status --json)" "and the status says so"
mv kept.json $config

pid=$(main_pid)
chmod 777 .local/state/switchboard
systemctl --user restart switchboardd 2>/dev/null || true
tried() { [ "$(property NRestarts switchboardd.service)" -ge 6 ]; }
await "six tries" tried
expect 'active' "$(property ActiveState switchboardd.socket | sed s/activating/active/)" "a daemon that cannot start does not take the socket down"
chmod 700 .local/state/switchboard
await "another daemon" is_other "$pid"
call echo '{}'
expect '*"ok":true*' "$answer" "and is back when the reason is gone"

mkdir -p .config/systemd/user/switchboardd.service.d
printf '[Service]\nWatchdogSec=1\nTimeoutAbortSec=2\n' >.config/systemd/user/switchboardd.service.d/w.conf
systemctl --user daemon-reload
systemctl --user restart switchboardd
pid=$(main_pid)
sleep 3
[ "$(main_pid)" = "$pid" ] || fail "the watchdog barks at a daemon that is well"
kill -STOP "$pid"
await "the watchdog to bite" is_other "$pid"
echo "ok: one that stands still is replaced"
rm -r .config/systemd/user/switchboardd.service.d
systemctl --user daemon-reload
systemctl --user restart switchboardd
call echo '{}'
expect '*"ok":true*' "$answer" "the shim did not mind"

pid=$(main_pid)
before=$(readlink "/proc/$pid/exe")
cp "$bin/switchboardd" .local/bin/new
echo another >>.local/bin/new
mv .local/bin/new .local/bin/switchboardd
inode() { [ "$(stat -Lc %i "/proc/$pid/exe")" = "$(stat -c %i .local/bin/switchboardd)" ]; }
await "the new binary to take over ($before)" inode
expect "$pid" "$(main_pid)" "an upgrade takes over in the same process"
call echo '{}'
expect '*"ok":true*' "$answer" "and the shim with it"
expect 'active' "$(property ActiveState switchboardd.service)" "systemd sees no interruption"

expect '0 *stopped, and its socket*' "$(says switchboard stop)" "stop stops both"
expect 'inactive inactive' "$(property ActiveState switchboardd.socket) $(property ActiveState switchboardd.service)" "systemd agrees"
call echo '{}'
expect '*"kind":"stopped"*' "$answer" "the shim does not bring it back"
expect 'inactive inactive' "$(property ActiveState switchboardd.socket) $(property ActiveState switchboardd.service)" "nor does its connection"
said=$(says switchboard start)
expect "0 switchboardd started by the service (pid $(main_pid))" "$said" "start starts both"
works() {
    call echo '{}'
    case $answer in *'"ok":true'*) ;; *) return 1 ;; esac
}
await "the shim to find it" works
expect 'active' "$(property ActiveState switchboardd.service)" "under systemd again"
said=$(says switchboard restart)
expect "0 switchboardd restarted (pid $(main_pid))" "$said" "restart leaves it there"

touch .config/systemd/user/mine.service
expect '0 *removed*' "$(says switchboard service remove)" "it is removed"
expect 'mine.service' "$(find .config/systemd/user -mindepth 1 -printf '%f\n')" "with all its files, and no other"
expect 'not-found' "$(property LoadState switchboardd.service)" "systemd has forgotten it"
await "the shim to start its own" works
expect '0 *there is no service to remove*' "$(says switchboard service remove)" "nothing is removed twice"
expect '0 *switchboardd stopped' "$(says switchboard stop)" "the shim's own daemon can be stopped as before"

# As a package brings them: in a folder of the system, and for every user to enable.
mkdir -p /run/systemd/user
for unit in switchboardd.socket switchboardd.service; do
    sed "s,/usr/bin/switchboardd,$HOME/.local/bin/switchboardd," "$here/../../deploy/systemd/$unit" >/run/systemd/user/$unit
done
systemctl --user daemon-reload
expect '0 the units are there, from a package*systemctl --user enable --now switchboardd.socket*' "$(says switchboard service install)" "units of a package are enabled"
expect 'mine.service' "$(cd .config/systemd/user && find . -name '*.service' -printf '%f\n')" "and not written again"
await "the shim to find it" works
expect 'active' "$(property ActiveState switchboardd.service)" "and serve"
expect '0 *"packaged": true*' "$(says switchboard service status --json)" "the status knows whose they are"
expect '0 *removed*' "$(says switchboard service remove)" "they are disabled"
expect 'inactive disabled' "$(property ActiveState switchboardd.socket) $(property UnitFileState switchboardd.socket)" "and left to the package"
switchboard stop >/dev/null 2>&1 || true
exec 5>&-
echo "service: all is well"
