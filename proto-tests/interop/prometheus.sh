#!/usr/bin/env bash
# usage: prometheus.sh BIN_DIR
#
# What Prometheus itself says of `/metrics`, and of the rules and the scrape example in deploy/. Debian packages that are
# missing are installed where we are root; where they cannot be had it says so and ends well, except where CI is set.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

me=prometheus
# shellcheck source=step.sh
. "$here/step.sh"
have() {
    command -v promtool >/dev/null && command -v curl >/dev/null
}

[ $# -ge 1 ] && [ -x "$1/switchboardd" ] && [ -x "$1/switchboard" ] && [ -x "$1/evil-child" ] || {
    echo "usage: prometheus.sh BIN_DIR, with \`switchboardd\`, \`switchboard\` and \`evil-child\` in it" >&2
    exit 2
}
bin=$(cd "$1" && pwd)

# For its tool alone.
have || debian prometheus curl
have || skip "promtool or curl missing (Debian, Ubuntu: apt install prometheus curl)"

home=$(mktemp -d)
daemon=
end() {
    [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon"; } || true
    rm -rf "$home"
}
trap end EXIT
mkdir -p "$home/.config/switchboard/mcps/kid" "$home/.config/switchboard/mcps/odd"
printf '{"mcpServers": {"kid": {"command": "%s", "args": ["echo"]}}}' "$bin/evil-child" >"$home/.config/switchboard/mcps/kid/.mcp.json"
printf '{"mcpServers": {"a\\"b\\\\c {} # EOF": {"command": "%s", "args": ["echo"]}}}' "$bin/evil-child" >"$home/.config/switchboard/mcps/odd/.mcp.json"
env -i HOME="$home" PATH="$PATH" "$bin/switchboardd" --socket "$home/s" --listen off 2>"$home/log" &
daemon=$!
ask() {
    curl --silent --show-error --fail --unix-socket "$home/s" "$@"
}
for _ in $(seq 200); do
    ask http://localhost/health >/dev/null 2>&1 && break
    sleep 0.05
done

call() {
    ask http://localhost/proxy --data "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$1\",\"arguments\":{\"action\":\"call\",\"subtool\":\"$2\",\"args\":{}}}}" >/dev/null
}
check() {
    local said
    said=$(promtool check metrics <"$home/metrics" 2>&1) || fail "$1: $said"
    [ -z "$said" ] || fail "$1: $said"
    echo "ok: $1"
}

ask http://localhost/metrics >"$home/metrics"
check "a daemon that has done nothing"
odd=$(ask http://localhost/suites | grep -o '"name":"[^"]*"' | cut -d'"' -f4 | grep -v '^kid_suite$' | head -1)
for subtool in echo count crash no-such-tool echo; do call kid_suite "$subtool"; done
call "$odd" echo
ask http://localhost/metrics >"$home/metrics"
grep -q '^mcp_client_session_duration_seconds_bucket{child="kid"' "$home/metrics" || fail "no child has ended: $(cat "$home/metrics")"
check "one that has, names that want escaping among it"

promtool check rules "$root/deploy/prometheus/alerts.yml" || fail "the rules"
promtool test rules "$root/deploy/prometheus/alerts.test.yml" || fail "what the rules do"
promtool check config --syntax-only "$root/deploy/prometheus/scrape.yml" || fail "the scrape example"
echo "prometheus: all is well"
