#!/usr/bin/env bash
# usage: deploy/debian/build.sh BIN_DIR OUT_DIR
#
# Makes a Debian package of the programs in BIN_DIR, with user units, man pages and completions, and prints its path.
# The same input gives the same bytes: times are SOURCE_DATE_EPOCH (or the last commit's), owners are root. Needs
# dpkg-deb. The architecture is this machine's, or ARCH; the compression xz, or COMPRESSION. CTL is a `switchboard-ctl` that
# runs here, if that of BIN_DIR does not; NOTICES as for deploy/package-tree.
set -euo pipefail

programs=(switchboard switchboardd switchboard-ctl switchboard-guard)
usage() {
    echo "usage: build.sh BIN_DIR OUT_DIR, with ${programs[*]} in BIN_DIR" >&2
    exit 2
}
[ $# -eq 2 ] || usage
for program in "${programs[@]}"; do [ -x "$1/$program" ] || usage; done
bin=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

export LC_ALL=C TZ=UTC
umask 022
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")}"
export SOURCE_DATE_EPOCH
version=$("${CTL:-$bin/switchboard-ctl}" --version | cut -d' ' -f2)
arch=${ARCH:-$(dpkg --print-architecture)}
name=switchboard-mcp
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

# What the binaries need of the C library: the newest version of it that they name. Static ones need nothing.
depends() {
    local glibc
    glibc=$(grep -aoh 'GLIBC_2\.[0-9]*' "${programs[@]/#/$bin/}" | sort -uV | tail -1 || true)
    [ -z "$glibc" ] || printf 'libc6 (>= %s)' "${glibc#GLIBC_}"
    ! grep -aq 'libgcc_s\.so\.1' "${programs[@]/#/$bin/}" || printf ', libgcc-s1'
}
ZSH_FOLDER=vendor-completions CTL=${CTL:-$bin/switchboard-ctl} "$root/deploy/package-tree" "$bin" "$tree"
mkdir -p "$tree/usr/share/doc/$name"
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: Switchboard"
    echo "Source: https://github.com/switchboard-mcp/switchboard"
    echo
    echo "Files: *"
    echo "Copyright: $(sed -n 's/^Copyright (c) //p' "$root/LICENSE")"
    echo "License: MIT"
    sed -n '/^Permission/,$p' "$root/LICENSE" | sed -e 's/^$/./' -e 's/^/ /'
} >"$tree/usr/share/doc/$name/copyright"

mkdir "$tree/DEBIAN"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
needs=$(depends)
{
    echo "Package: $name"
    echo "Version: $version"
    echo "Architecture: $arch"
    echo "Maintainer: Switchboard contributors <noreply@github.com>"
    echo "Installed-Size: $(find "$tree/usr" -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')"
    [ -z "$needs" ] || echo "Depends: $needs"
    echo "Section: utils"
    echo "Priority: optional"
    echo "Homepage: https://github.com/switchboard-mcp/switchboard"
    echo "Description: your MCP servers, shared between your editors"
    echo " Switchboard runs the MCP servers of a user once for all their editors and"
    echo " shows each of them to a model as one tool. The daemon is started by the first"
    echo " editor that needs it; \`switchboard service install\` has the systemd of the"
    echo " user keep it instead."
} >"$tree/DEBIAN/control"
chmod 644 "$tree/DEBIAN"/*

find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
package="$out/${name}_${version}_${arch}.deb"
dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$tree" "$package" >/dev/null
echo "$package"
