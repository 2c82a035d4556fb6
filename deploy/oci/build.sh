#!/usr/bin/env bash
# usage: deploy/oci/build.sh SHIP OUT
#
# Makes a container image of the static programs in SHIP/*-linux-musl, for each processor that is there, as the OCI layout
# OUT with the name `switchboard`. Needs buildah, and no daemon. The image is empty but for the programs, a user that is not
# root, folders of that user and the certificates of this machine: servers that it starts must be in it (`FROM` it) or remote.
set -euo pipefail
# shellcheck source=../tools.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools.sh"

[ $# -eq 2 ] || { echo "usage: build.sh SHIP OUT" >&2; exit 2; }
ship=$(cd "$1" && pwd)
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot} STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
work=$(mktemp -d)
list=switchboard-$$
container=
clean_up() {
    [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
    buildah manifest rm "$list" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT

home=home/switchboard
mkdir -p "$work/etc/ssl/certs" "$work/$home" "$work/tmp"
chmod 700 "$work/$home"
chmod 1777 "$work/tmp"
echo "switchboard:x:65532:65532::/$home:/bin/false" >"$work/etc/passwd"
echo "switchboard:x:65532:" >"$work/etc/group"
cp /etc/ssl/certs/ca-certificates.crt "$work/etc/ssl/certs/"

buildah manifest create "$list" >/dev/null
for folder in "$ship"/*-linux-musl; do
    case $(basename "$folder") in
    x86_64-*) arch=amd64 ;;
    aarch64-*) arch=arm64 ;;
    esac
    container=$(buildah from --arch "$arch" scratch)
    for program in "${programs[@]}"; do buildah copy --quiet --chmod 755 "$container" "$folder/$program" "/usr/bin/$program" >/dev/null; done
    buildah copy --quiet "$container" "$work/etc" /etc >/dev/null
    buildah copy --quiet "$container" "$work/tmp" /tmp >/dev/null
    buildah copy --quiet --chown 65532:65532 "$container" "$work/home" /home >/dev/null
    buildah config --arch "$arch" --os linux --user 65532:65532 --workingdir "/$home" --env "HOME=/$home" --env PATH=/usr/bin \
        --entrypoint '["/usr/bin/switchboard"]' --cmd '' \
        --label "org.opencontainers.image.title=Switchboard" --label "org.opencontainers.image.version=$(version)" \
        --label "org.opencontainers.image.source=https://github.com/switchboard-mcp/switchboard" \
        --label "org.opencontainers.image.licenses=MIT" --created-by "deploy/oci/build.sh" "$container"
    image=$(buildah commit --quiet --timestamp "$(epoch)" "$container")
    buildah rm "$container" >/dev/null
    container=
    buildah manifest add "$list" "$image" >/dev/null
done
rm -rf "$2"
buildah manifest push --all --quiet "$list" "oci:$2:switchboard"
echo "$2"
