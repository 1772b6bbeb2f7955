# SPDX-License-Identifier: Apache-2.0
# Tests how far this machine gets towards the Hugging Face Hub, with the proxies and certificates
# that huggingface_hub would use. After each step it prints everything known so far as one line of
# JSON: if it is ended early, the last line counts. It sends the Hub no request, and reads no files
# except certificates.
#
# Source: huggingface_hub 0.36, constants.py, and 1.0, utils/_http.py; requests 2.32, sessions.py,
# merge_environment_settings, and utils.py, get_environ_proxies and select_proxy; httpx 0.28, _config.py,
# create_ssl_context, and _utils.py, get_environment_proxies; urllib3 2.5, util/connection.py.
import sys

sys.path = [place for place in sys.path if place]  # do not import files from the current directory

import base64
import errno
import json
import os
import socket
import time
import urllib.parse
import urllib.request

# An address that does not answer must leave some time for the next.
ONE_ADDRESS = 2.0

# The outcomes of facts.PathOutcome.
OUTCOMES = {
    errno.ECONNREFUSED: "refused", errno.ECONNRESET: "reset", errno.ENETUNREACH: "unroutable", errno.EADDRNOTAVAIL: "unroutable",
    errno.EHOSTUNREACH: "rejected", errno.EACCES: "rejected", errno.EPERM: "rejected", errno.ENOPROTOOPT: "rejected",
}

began = time.monotonic()
end = began + float(sys.argv[1])
seen = {}


def say(**more):
    seen.update(more, seconds=time.monotonic() - began)
    print(json.dumps(seen), flush=True)


def fail(hop, error, outcome=""):
    say(failed=hop, error=str(error), outcome=outcome)
    sys.exit()


def left():
    return max(end - time.monotonic(), 0.001)


def client():
    try:
        from importlib.metadata import version

        return "httpx" if int(version("huggingface_hub").split(".")[0]) >= 1 else "requests"
    except Exception:  # not installed, or Python is older than 3.8 and the library too
        return "requests"


def proxy_for(url):
    if seen["client"] == "requests":
        try:
            from requests.utils import get_environ_proxies, select_proxy

            return select_proxy(url, get_environ_proxies(url))
        except ImportError:
            pass
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def store():
    """The trusted certificates and the variable that sets them; None for Python's own."""
    of_requests = seen["client"] == "requests"
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if of_requests else ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if os.environ.get(name):
            return os.environ[name], name
    try:
        if of_requests:
            from requests.certs import where
        else:
            from certifi import where
        return where(), ""
    except ImportError:
        return None, ""


def connect(host, port):
    say(failed="resolve", error="no answer in time", address="")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as e:
        fail("resolve", "%s: %s" % (host, getattr(e, "strerror", None) or e))
    for family, kind, protocol, _, address in found:
        say(failed="connect", error="no answer in time", outcome="dropped", address=address[0])
        call = socket.socket(family, kind, protocol)
        call.settimeout(min(ONE_ADDRESS, left()))
        try:
            call.connect(address)
            return call
        except socket.timeout:
            seen.update(error="no answer", outcome="dropped")
        except OSError as e:
            seen.update(error=e.strerror or str(e), outcome=OUTCOMES.get(e.errno, "broken"))
        call.close()
        if left() <= 0.001:
            break
    fail("connect", seen["error"], seen["outcome"])


def tunnel(call, host, port, proxy):
    """Makes the proxy connect, with the name and password from its own variable."""
    say(failed="proxy", error="no answer in time", outcome="")
    to = "%s:%d" % ("[%s]" % host if ":" in host else host, port)
    ask = "CONNECT %s HTTP/1.1\r\nHost: %s\r\n" % (to, to)
    if proxy.username is not None:
        who = "%s:%s" % (urllib.parse.unquote(proxy.username), urllib.parse.unquote(proxy.password or ""))
        ask += "Proxy-Authorization: Basic %s\r\n" % base64.b64encode(who.encode()).decode()
    answer = b""
    try:
        call.sendall((ask + "\r\n").encode())
        while b"\r\n\r\n" not in answer and len(answer) < 65536:
            call.settimeout(left())
            some = call.recv(1)  # what follows is the Hub's
            if not some:
                break
            answer += some
    except socket.timeout:
        fail("proxy", "no answer in time")
    except OSError as e:
        fail("proxy", e.strerror or e)
    line = answer.split(b"\r\n")[0].decode("latin-1")
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/"):
        fail("proxy", "it answers %r, which is not a proxy's answer" % line[:80] if line else "it closed the connection")
    if not words[1].startswith("2"):
        fail("proxy", " ".join(words[1:]))


def handshake(call, host):
    import ssl

    path, by = store()
    say(failed="store", error="not read in time", store=path or "", outcome="")
    try:
        if path is None:
            context = ssl.create_default_context()
            seen["store"] = "python's own"
        elif os.path.isdir(path):
            context = ssl.create_default_context(capath=path)
        else:
            context = ssl.create_default_context(cafile=path)
    except OSError as e:  # includes ssl.SSLError
        fail("store", "%s%s" % (by + ": " if by else "", e.strerror or e))
    say(failed="handshake", error="no answer in time")
    call.settimeout(left())
    try:
        context.wrap_socket(call, server_hostname=host).close()
    except ssl.SSLCertVerificationError as e:
        fail("trust", e.verify_message)
    except socket.timeout:
        fail("handshake", "no answer in time")
    except OSError as e:
        fail("handshake", e.strerror or e)


endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
parts = urllib.parse.urlsplit(endpoint)
shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # a mirror may take a password
say(endpoint=shown, client=client(), proxy="", failed="", error="", outcome="")
try:
    port = parts.port or {"https": 443, "http": 80}[parts.scheme]
    host = parts.hostname or ""
except (KeyError, ValueError):
    host = ""
if not host:
    fail("resolve", "HF_ENDPOINT is not a web address")
through = proxy_for(endpoint)
if through:
    proxy = urllib.parse.urlsplit(through if "://" in through else "http://" + through)
    at = proxy.hostname or "", proxy.port or {"https": 443}.get(proxy.scheme, 80)
    say(proxy="%s:%d" % at)
    if proxy.scheme != "http":
        fail("proxy", "preflight does not test %s proxies" % proxy.scheme, "untried")
    call = connect(*at)
    if parts.scheme == "https":
        tunnel(call, host, port, proxy)
else:
    call = connect(host, port)
if parts.scheme == "https":
    handshake(call, host)
say(failed="", error="", outcome="")
