"""A certificate that signs itself, for the servers under test."""

import subprocess

SECONDS = 60


def self_signed(folder, name="server"):
    """Writes NAME.pem and NAME.key for localhost into the folder; both paths."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=SECONDS)
    return certificate, key
