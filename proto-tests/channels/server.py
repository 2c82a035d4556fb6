"""usage: server.py DIST

Serves DIST on loopback as the places that users install from: its files as GitHub's releases, its packages as an npm
registry. Prints its address.
"""
import base64
import hashlib
import http.server
import json
import pathlib
import sys
import tarfile
import urllib.parse

DIST = pathlib.Path(sys.argv[1])


def packages():
    found = {}
    for file in DIST.glob("*.tgz"):
        with tarfile.open(file) as tar:
            manifest = json.load(tar.extractfile("package/package.json"))
        found[manifest["name"]] = (manifest, file)
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        name = "/".join(parts)
        known = packages()
        if parts[0] == "releases":
            self.answer(DIST / parts[-1], "application/octet-stream")
        elif name in known:
            manifest, file = known[name]
            data = file.read_bytes()
            manifest = {**manifest, "dist": {
                "tarball": f"http://{self.headers['Host']}/releases/{file.name}",
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode(),
            }}
            version = manifest["version"]
            body = json.dumps({"name": name, "dist-tags": {"latest": version}, "versions": {version: manifest}}).encode()
            self.send(body, "application/json")
        else:
            self.send_error(404)

    def answer(self, file, kind):
        if file.is_file():
            self.send(file.read_bytes(), kind)
        else:
            self.send_error(404)

    def send(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
