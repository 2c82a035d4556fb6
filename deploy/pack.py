#!/usr/bin/env python3
"""usage: pack.py FOLDER OUT EPOCH [PREFIX]

Packs FOLDER as a .tar.gz, .tgz, .zip or .mcpb. The same files give the same bytes, whoever packs them and when: names in
order, EPOCH as the time of each, root as owner, mode 755 for programs and 644 for the rest. PACK_LEVEL is how hard it
compresses: 9, unless given.
"""
import gzip
import io
import os
import sys
import tarfile
import time
import zipfile

LEVEL = int(os.environ.get("PACK_LEVEL", 9))


def files(folder):
    found = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        found += [os.path.join(parent, name) for name in names]
    return sorted(os.path.relpath(file, folder) for file in found)


def mode(file):
    return 0o755 if os.stat(file).st_mode & 0o100 else 0o644


def read(file):
    with open(file, "rb") as content:
        return content.read()


def pack_tar(folder, out, epoch, prefix):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in files(folder):
            file = os.path.join(folder, name)
            entry = tarfile.TarInfo(f"{prefix}/{name}")
            entry.size = os.stat(file).st_size
            entry.mode = mode(file)
            entry.mtime = epoch
            entry.uname = entry.gname = "root"
            with open(file, "rb") as content:
                tar.addfile(entry, content)
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as squeezed:
        squeezed.write(plain.getvalue())


def pack_zip(folder, out, epoch):
    with zipfile.ZipFile(out, "w") as archive:
        for name in files(folder):
            file = os.path.join(folder, name)
            entry = zipfile.ZipInfo(name, time.gmtime(max(epoch, 315532800))[:6])
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode(file)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, read(file), zipfile.ZIP_DEFLATED, LEVEL)


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    folder, out, epoch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if out.endswith((".zip", ".mcpb")):
        pack_zip(folder, out, epoch)
    else:
        pack_tar(folder, out, epoch, sys.argv[4] if len(sys.argv) == 5 else os.path.basename(os.path.normpath(folder)))


main()
