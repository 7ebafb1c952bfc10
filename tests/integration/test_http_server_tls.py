"""The http layer under TLS, and in front of clients that others wrote."""

import contextlib
import random
import shutil
import ssl
import subprocess

import pytest

from http_harness import (H2, HANG, PREFACE, PROGRAM, Reader, ask, certificate, connect, get, read_all, secure, serving,
                          status_of)  # noqa: F401, fixtures among them

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


# ---- TLS


def tls(port, alpn=(), lowest=None, highest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if highest:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = lowest or highest, highest
    return context.wrap_socket(connect(port))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_serves_http1(secure, version):
    for alpn in ((), ("http/1.1",)):
        with tls(secure.ports[1], alpn, highest=version) as sock:
            sock.sendall(get("/about") + get("/large?200000"))
            reader = Reader(sock)
            assert b" 1.1 tls\n" in reader.answer()[2]
            assert len(reader.answer()[2]) == 200000
            assert sock.selected_alpn_protocol() == (alpn[0] if alpn else None)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_serves_http2(secure, version):
    sock = tls(secure.ports[1], ("http/1.1", "h2"), highest=version)
    assert sock.selected_alpn_protocol() == "h2"
    h2 = H2(None, sock)
    h2.request(1, "GET", "/about")
    assert b" 2 tls\n" in h2.answer(1)[2]
    h2.request(3, "GET", "/large?2000000")
    assert len(h2.answer(3)[2]) == 2000000
    sock.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_below_1_2_is_refused(secure):
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        with pytest.raises(ssl.SSLError, match="(?i)protocol.version"):
            tls(secure.ports[1], highest=version)


def test_tls_without_a_common_protocol_is_refused(secure):
    with pytest.raises(ssl.SSLError):
        tls(secure.ports[1], ("spdy/3",))


def test_tls_with_prior_knowledge_preface_is_http1(secure):
    with tls(secure.ports[1]) as sock:
        sock.sendall(PREFACE)
        assert status_of(read_all(sock)) == 400


def test_tls_closed_work_is_cancelled(certificate):
    with serving(*certificate, listen=("--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0")) as server:
        with tls(server.ports[1]) as sock:
            sock.sendall(get("/slow?60000"))
        server.wait_for(canceled=1)
        with tls(server.ports[1]) as sock:  # close_notify alone, the socket stays open
            sock.sendall(get("/slow?60000"))
            sock.settimeout(0.2)
            with contextlib.suppress(OSError):
                sock.unwrap()
            server.wait_for(canceled=2)


def test_tls_unread_body_still_gets_the_answer(secure):
    with tls(secure.ports[1]) as sock:
        sock.sendall(get("/refuse", "Content-Length: 100000", method="POST") + b"x" * 50000)
        assert Reader(sock).answer()[0] == 403


def test_tls_slow_handshake_is_closed(certificate):
    with serving("--limit", "header_ms=300", *certificate, listen=("--tls-listen", "127.0.0.1:0")) as server:
        for start in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
            with connect(server.ports[0]) as sock:
                sock.sendall(start)
                read_all(sock)


def test_cleartext_on_a_tls_port_is_closed(secure):
    with connect(secure.ports[1]) as sock:
        sock.sendall(get("/"))
        assert b"HTTP/" not in read_all(sock)


def test_tls_renegotiation_is_refused(secure):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{secure.ports[1]}", "-tls1_2"],
                          input=b"R\n", capture_output=True, timeout=HANG)
    assert b"no renegotiation" in done.stderr + done.stdout
    assert status_of(ask(secure.ports[0], get("/"))) == 200


def test_key_that_does_not_match_fails_the_start(certificate, tmp_path):
    other = tmp_path / "other.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out",
                    other], check=True, capture_output=True)
    for cert, key in ((certificate[1], other), (certificate[1], tmp_path / "none"), (other, certificate[3])):
        done = subprocess.run([PROGRAM, "--cert", cert, "--key", key, "--tls-listen", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 1 and "TLS" in done.stderr


# ---- clients that others wrote


CURL = [["--http1.1"], ["--http2-prior-knowledge"], ["--http1.1", "tls"], ["--http2", "tls"], ["--http1.0"]]


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("options", CURL, ids=" ".join)
def test_curl(secure, options, tmp_path):
    scheme, port = ("https", secure.ports[1]) if "tls" in options else ("http", secure.ports[0])
    options = [option for option in options if option != "tls"]
    upload = tmp_path / "upload"
    upload.write_bytes(random.Random(7).randbytes(3 << 20))

    def curl(path, *more):
        return subprocess.run(["curl", "-sSk", "--max-time", str(HANG), *options, *more,
                               f"{scheme}://127.0.0.1:{port}{path}"], check=True, capture_output=True).stdout
    assert curl("/") == b"hello\n"
    assert curl("/", "-d", "abc") == b"abc"
    assert curl("/", "--data-binary", f"@{upload}") == upload.read_bytes()
    assert curl("/", "--data-binary", f"@{upload}", "-H", "Expect: 100-continue") == upload.read_bytes()
    assert len(curl("/large?5000000")) == 5000000
    assert curl("/slow?50") == b"slept\n"
    assert curl("/trailers") == b"message"
    assert b"403" in curl("/refuse", "-i", "--data-binary", f"@{upload}")
    if "--http1.0" not in options:
        assert curl("/", "-d", "abc", "-H", "Transfer-Encoding: chunked") == b"abc"


@pytest.mark.skipif(not shutil.which("h2load"), reason="h2load is not installed")
@pytest.mark.parametrize("options", [["-m", "32"], ["--h1"], ["-m", "32", "tls"], ["--h1", "tls"]], ids=" ".join)
def test_h2load(secure, options):
    url = f"https://127.0.0.1:{secure.ports[1]}/" if "tls" in options else f"http://127.0.0.1:{secure.ports[0]}/"
    options = [option for option in options if option != "tls"]
    for path, count in (("", 20000), ("slow?1", 500), ("large?100000", 500)):
        done = subprocess.run(["h2load", "-n", str(count), "-c", "10", *options, url + path], check=True,
                              capture_output=True, text=True, timeout=HANG)
        assert f"{count} succeeded, 0 failed, 0 errored" in done.stdout, done.stdout
