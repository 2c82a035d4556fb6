#!/usr/bin/env bash
# usage: package.sh BIN_DIR
#
# What people install: the Debian package is built, installed into a root of its own, used and removed; the crates are
# packed as they would be published. Without dpkg it says so and ends well, except where CI is set.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)

me=package
# shellcheck source=step.sh
. "$here/step.sh"
ok() {
    echo "ok: $*"
}

[ $# -eq 1 ] && [ -x "$1/switchboardd" ] && [ -x "$1/switchboard" ] && [ -x "$1/switchboard-ctl" ] && [ -x "$1/switchboard-guard" ] || {
    echo "usage: package.sh BIN_DIR, with \`switchboardd\` and \`switchboard\` in it" >&2
    exit 2
}
bin=$(cd "$1" && pwd)
# dpkg gives what it unpacks to root.
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if sudo -n true 2>/dev/null; then as_root=(sudo -n); elif command -v fakeroot >/dev/null; then as_root=(fakeroot); fi
fi
work=$(mktemp -d)
trap '"${as_root[@]}" rm -rf "$work"' EXIT

# The crates. Dependencies between them are taken from each other, not from the registry.
cd "$source"
published=(switchboard-wire switchboard-mcp switchboard-definitions switchboard-hosts switchboard-guard switchboardd switchboard-ctl switchboard-shim)
cargo package --quiet --no-verify --allow-dirty --target-dir "$work/target" "${published[@]/#/--package=}"
for crate in "${published[@]}"; do
    archive=$(echo "$work/target/package/$crate"-[0-9]*.crate)
    tar -tzf "$archive" | sed 's,^[^/]*/,,' | sort >"$work/list"
    for file in Cargo.toml Cargo.lock LICENSE README.md; do
        grep -qx "$file" "$work/list" || fail "$crate: \`$file\` is missing"
    done
    tar -xzf "$archive" -C "$work"
    if find "$work/$crate"-[0-9]* -type l | grep -q .; then fail "$crate: a link in the archive leads nowhere"; fi
    # Whatever the sources include has to be in the archive; what is for tests only may lie outside.
    (cd "$work/$crate"-[0-9]* && grep -rnoE 'include_(str|bytes)!\("[^"]+"\)' src || true) |
        while IFS=: read -r file _ what; do
            what=${what#*\"}
            what=${what%\"*}
            cd "$work/$crate"-[0-9]*
            if [ ! -e "$(dirname "$file")/$what" ] && ! grep -rqPz "#\[cfg\(test\)\]\nmod $(basename "$file" .rs);" src; then
                fail "$crate: \`$what\` of $file is not packed"
            fi
        done
    grep -q '^path = "\.\.' "$work/$crate"-[0-9]*/Cargo.toml && fail "$crate: a dependency is only a path"
    for key in description license repository readme; do
        grep -q "^$key = " "$work/$crate"-[0-9]*/Cargo.toml || fail "$crate: no \`$key\`"
    done
done
ok "eight crates are packed with all that they need"
# Each by itself: within the workspace a crate gets the features that others ask for.
for crate in "${published[@]}"; do
    cargo check --quiet --package "$crate" || fail "$crate does not compile by itself"
done
ok "each of them compiles by itself"

command -v dpkg-deb >/dev/null || skip "dpkg is missing: no Debian package"
[ "$(id -u)" -eq 0 ] || [ ${#as_root[@]} -gt 0 ] || skip "installing a package takes root, \`sudo\` without a password, or fakeroot"
# As small as release builds are, and squeezed the quick way.
mkdir "$work/bin"
cp "$bin"/switchboard{,d,-ctl,-guard} "$work/bin"
bin=$work/bin
if command -v strip >/dev/null; then strip "$bin"/*; fi
export COMPRESSION=gzip
package=$("$source/deploy/debian/build.sh" "$bin" "$work/one")
again=$("$source/deploy/debian/build.sh" "$bin" "$work/two")
cmp "$package" "$again" || fail "two builds differ"
ok "$(basename "$package") is built, the same every time"

fields=$(dpkg-deb --field "$package")
for field in Package Version Architecture Maintainer Description Installed-Size; do
    grep -q "^$field: ." <<<"$fields" || fail "no \`$field\` in: $fields"
done
[ "$(dpkg-deb --field "$package" Version)" = "$("$bin/switchboard" --version | cut -d' ' -f2)" ] || fail "another version: $fields"
if dpkg-deb --contents "$package" | awk '{ print $2 }' | grep -qv '^root/root$'; then fail "a file is not root's"; fi
if command -v lintian >/dev/null; then
    # Debug builds are neither stripped nor hardened.
    lintian --fail-on error --suppress-tags unstripped-binary-or-object,no-copyright-file "$package" || fail "lintian"
fi

# A root of its own, with nothing else in it; what is needed of the C library is this machine's.
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
dpkg_there() {
    "${as_root[@]}" env PATH="$PATH:/usr/sbin:/sbin" dpkg --root="$root" --force-not-root --force-depends --force-bad-path --log=/dev/null "$@" \
        >"$work/dpkg.log" 2>&1 ||
        fail "dpkg $*: $(cat "$work/dpkg.log")"
}
dpkg_there --install "$package"
installed() {
    (cd "$root" && find . \( -type f -o -type l \) ! -path './var/lib/dpkg/*' | sort)
}
(cd "$root" && md5sum --quiet --check var/lib/dpkg/info/switchboard-mcp.md5sums) || fail "checksums"
for file in bin/switchboard bin/switchboardd bin/switchboard-ctl bin/switchboard-guard lib/systemd/user/switchboardd.service lib/systemd/user/switchboardd.socket \
    share/man/man1/switchboard.1.gz share/bash-completion/completions/switchboard share/zsh/vendor-completions/_switchboard \
    share/fish/vendor_completions.d/switchboard.fish share/doc/switchboard-mcp/copyright share/doc/switchboard-mcp/changelog.gz; do
    [ -s "$root/usr/$file" ] || fail "\`/usr/$file\` is missing"
done
ok "it is installed: $(installed | wc -l) files"

home=$work/home
mkdir -p "$home/.config/switchboard" "$work/empty"
echo '{"http":{"listen":"off"}}' >"$home/.config/switchboard/switchboard.config.json"
there() {
    env -i HOME="$home" USER=tester PATH=/usr/bin:/bin SHELL=/bin/sh "$root/usr/bin/switchboard" --socket "$work/s" "$@"
}
chmod 700 "$work"
there --version | grep -q '^switchboard [0-9]' || fail "no version"
echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | there --workspace "$work/empty" | grep -q '"tools":\[\]' ||
    fail "the installed shim and daemon do not serve"
there stop >/dev/null
ok "what is installed runs: shim, daemon, commands"

bash -n "$root/usr/share/bash-completion/completions/switchboard" || fail "bash completions"
if command -v zsh >/dev/null; then zsh -n "$root/usr/share/zsh/vendor-completions/_switchboard" || fail "zsh completions"; fi
if command -v fish >/dev/null; then fish -n "$root/usr/share/fish/vendor_completions.d/switchboard.fish" || fail "fish completions"; fi
if command -v man >/dev/null && command -v groff >/dev/null; then
    for page in "$root"/usr/share/man/man1/*.gz; do
        warned=$(MANROFFSEQ='' MANWIDTH=80 man --warnings --local-file --encoding=UTF-8 --troff-device=utf8 --ditroff "$page" 2>&1 >/dev/null) || true
        [ -z "$warned" ] || fail "man page $(basename "$page"): $warned"
    done
fi
grep -q '^ExecStart=/usr/bin/switchboardd$' "$root/usr/lib/systemd/user/switchboardd.service" || fail "the unit starts something else"
ok "units, man pages and completions are in their places"

dpkg_there --remove switchboard-mcp
dpkg_there --purge switchboard-mcp
[ -z "$(installed)" ] || fail "left behind: $(installed)"
[ ! -e "$root/usr" ] || fail "folders are left: $(find "$root/usr")"
ok "and removed without a trace"
echo "package: all is well"
