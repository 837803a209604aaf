"""Object stores on this machine: each cloud's emulator, and a door in front of it that can be told to misbehave.

The environment that leads the cloud libraries to them is the one that a person would set; see docs/cloud.md.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

AZURITE = Path(__file__).parent / "azurite"
AZURITE_MAIN = AZURITE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
# The account and key that Microsoft publishes for its emulator; they open nothing else.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_HOP = ("transfer-encoding", "connection", "content-length", "date", "server")


@dataclass
class Store:
    """A store that runs: the URL of its bucket and the environment that leads there."""

    url: str
    environment: dict[str, str] = field(default_factory=dict)
    door: Door | None = None


def own_certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that nobody else has signed, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(hours=1))
        .add_extension(address, critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "own.pem"
    path.write_bytes(private + certificate.public_bytes(pem))
    return path


class Door:
    """Passes requests on to a server; ``mode`` is pass, error (500), denied (403), reset or truncate (half a body).

    ``times`` is how many requests the mode is for; after them it passes again. ``tls`` is a file with a key and its
    certificate, to be asked over https.
    """

    def __init__(self, port: int, tls: Path | None = None) -> None:
        self._tls = tls
        self.mode = "pass"
        self.times = -1
        self.requests: list[str] = []
        self.signed: list[bool] = []
        """Of each request: whether it carried credentials."""
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def serve(self) -> None:
                door.answer(self, port)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = serve

        self._handler = Handler
        self.port = 0
        self.target = port
        self.open()

    def open(self) -> None:
        """Listens; on the same port as before when it was closed."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self._server.daemon_threads = True
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @contextmanager
    def away(self) -> Iterator[None]:
        """As if the server was stopped: nothing listens, and open connections end."""
        self.mode = "reset"
        self.close()
        try:
            yield
        finally:
            self.mode = "pass"
            self.open()

    def answer(self, handler: BaseHTTPRequestHandler, port: int) -> None:
        body = self._body(handler)
        self.requests.append(f"{handler.command} {handler.path}")
        self.signed.append("Authorization" in handler.headers or "sig=" in handler.path)
        mode = self._next_mode()
        if mode == "reset":
            handler.close_connection = True
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            return
        if mode in ("error", "denied"):
            handler.send_response(500 if mode == "error" else 403)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in ("transfer-encoding", "connection")}
        if body:
            headers["Content-Length"] = str(len(body))
        upstream.request(handler.command, handler.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                handler.send_header(name, value)
        length = answer.headers.get("Content-Length") if handler.command == "HEAD" else None
        handler.send_header("Content-Length", length or str(len(content)))
        handler.end_headers()
        if mode == "truncate" and handler.command == "GET":
            content, handler.close_connection = content[: len(content) // 2], True
        handler.wfile.write(content)

    def _next_mode(self) -> str:
        mode = self.mode
        if self.times > 0:
            self.times -= 1
            if self.times == 0:
                self.mode, self.times = "pass", -1
        return mode

    def _body(self, handler: BaseHTTPRequestHandler) -> bytes:
        if handler.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        body = b""
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            body += handler.rfile.read(size)
            handler.rfile.readline()
        handler.rfile.readline()
        return body

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def s3() -> Iterator[Store]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    door = Door(server.get_host_and_port()[1])
    try:
        yield Store(
            "s3://bucket",
            {
                "S3_ENDPOINT": f"http://127.0.0.1:{door.port}",
                "AWS_ACCESS_KEY_ID": "AKIATESTONLY",
                "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
                "AWS_DEFAULT_REGION": "us-east-1",
            },
            door,
        )
    finally:
        door.close()
        server.stop()


@contextmanager
def gs() -> Iterator[Store]:
    from gcp_storage_emulator.server import create_server

    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="bucket")
    server.start()
    door = Door(port)
    try:
        yield Store("gs://bucket", {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{door.port}"}, door)
    finally:
        door.close()
        server.stop()


@contextmanager
def abfs() -> Iterator[Store]:
    port = free_port()
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--skipApiVersionCheck", "--disableTelemetry"]
    process = subprocess.Popen(
        ["node", str(AZURITE_MAIN), *options, "--inMemoryPersistence", "--disableProductStyleUrl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "successfully listens" in line:
            break
    else:
        raise RuntimeError("Azurite ended at once:\n" + "".join(said))
    threading.Thread(target=process.stdout.read, daemon=True).start()
    door = Door(port)
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{door.port}/{ACCOUNT};"
    )
    try:
        yield Store("abfs://bucket", {"AZURE_STORAGE_CONNECTION_STRING": connection}, door)
    finally:
        door.close()
        process.terminate()
        process.wait(10)


def install_azurite() -> str:
    """Why Azurite cannot be started; empty when it can. Installs it on the first call."""
    if AZURITE_MAIN.exists():
        return ""
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline", "--loglevel=error"]
    try:
        done = subprocess.run(command, cwd=AZURITE, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Azurite cannot be installed: {error}"
    return "" if AZURITE_MAIN.exists() else f"Azurite cannot be installed: {done.stderr[-300:]}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


STORES = {"s3": s3, "gs": gs, "abfs": abfs}
PACKAGES = {"s3": ("s3fs", "moto"), "gs": ("gcsfs", "gcp_storage_emulator"), "abfs": ("adlfs",)}
