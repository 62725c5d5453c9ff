"""Certificates of one development cluster: its own authority, the server's certificate, one per user.

A user *is* a client certificate: the common name is the user's name, each organization is a group. Nobody has
rights but those that RBAC gives to that name or those groups.
"""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = datetime.timedelta(days=365)
_CLOCK_SLACK = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + _VALID_FOR)
    )


class Authority:
    """The cluster's certificate authority: it signs the server's certificate and those of users."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, folder: Path) -> Self:
        """A new authority, kept as ``ca.crt`` and ``ca.key`` in ``folder``: users can be added later."""
        key = _new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gatewright development cluster")])
        certificate = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        authority = cls(certificate, key)
        write_private(folder / "ca.key", _private_pem(key))
        (folder / "ca.crt").write_bytes(authority.certificate_pem)
        return authority

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The authority that :meth:`create` kept in ``folder``."""
        certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{folder / 'ca.key'} was not made by this module")
        return cls(certificate, key)

    def issue_client(self, name: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """The certificate of the user ``name`` who is a member of ``groups``."""
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._issue(x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, name)]), None)

    def issue_server(self, names: tuple[str, ...], addresses: tuple[str, ...]) -> KeyPair:
        """A server's certificate for these DNS names and IP addresses."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, x509.SubjectAlternativeName(alternatives))

    def _issue(self, subject: x509.Name, server_names: x509.SubjectAlternativeName | None) -> KeyPair:
        key = _new_key()
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if server_names is None else ExtendedKeyUsageOID.SERVER_AUTH
        builder = (
            _builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if server_names is not None:
            builder = builder.add_extension(server_names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def new_signing_key() -> KeyPair:
    """The key pair that signs service accounts' tokens; ``certificate`` holds the public key's PEM."""
    key = _new_key()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(public, _private_pem(key))


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only this user can read."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
