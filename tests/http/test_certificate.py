"""TLS with a certificate that changes while the server runs."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette.responses import PlainTextResponse

from kvant.errors import ConfigError
from kvant.http.certificate import Certificate
from kvant.http.listener import Listener


def write(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate of this name and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, secret


async def seen(port: int) -> str:
    """The name in the certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"200 OK" in await reader.read()
    writer.close()
    found = x509.load_der_x509_certificate(raw)
    return str(found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def test_a_new_certificate_is_shown_and_half_a_pair_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        certificate = Certificate(*write(tmp_path, "first"))
        server = Listener(PlainTextResponse("in"), "127.0.0.1", 0, "listen.port", certificate)
        task = asyncio.create_task(server.run_until_closed())
        while not server.started:
            await asyncio.sleep(0.01)
        assert await seen(server.port) == "first"
        old = (tmp_path / "key.pem").read_bytes()
        _, key = write(tmp_path, "second")
        new = key.read_bytes()
        key.write_bytes(old)  # the chain is new, its key is not there yet
        certificate.refresh()
        assert await seen(server.port) == "first"
        key.write_bytes(new)
        os.utime(key, ns=(1, 1))
        certificate.refresh()
        assert await seen(server.port) == "second"
        await server.close(task)

    asyncio.run(main())


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    chain, key = write(tmp_path, "x")
    key.write_text("nothing")
    with pytest.raises(ConfigError, match=r"cert\.pem with .*key\.pem"):
        Certificate(chain, key)
