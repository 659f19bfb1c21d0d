"""Authenticates by SASL and uses the identity for a node.

Arguments: HOST:PORT, a path, `accepted` or `refused`, the mechanism, the name of the identity, and for DIGEST-MD5 the
password. Kerberos tickets come from the cache that KRB5CCNAME names. Prints `ok` or fails.
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl

WAIT_S = 15


def main():
    server, path, expected, mechanism, user, *password = sys.argv[1:]
    options = {"mechanism": mechanism}
    if password:
        options.update(username=user, password=password[0])
    client = KazooClient(hosts=server, timeout=10.0, sasl_options=options)
    try:
        # kazoo is connected before it authenticates: only a request shows the result.
        client.start(timeout=WAIT_S)
        client.exists("/")
    except (AuthFailedError, ConnectionClosedError, ConnectionLoss, KazooTimeoutError):
        assert expected == "refused", "the login failed"
        print("ok")
        return
    assert expected == "accepted", "the login succeeded"
    client.create(path, b"x", acl=[make_acl("auth", "", all=True)])
    acl, _ = client.get_acls(path)
    assert [(entry.id.scheme, entry.id.id) for entry in acl] == [("sasl", user)], acl
    assert client.get(path)[0] == b"x"
    other = KazooClient(hosts=server, timeout=10.0)
    other.start(timeout=WAIT_S)
    try:
        other.get(path)
        raise AssertionError("a client without the identity reads the node")
    except NoAuthError:
        pass
    for each in (client, other):
        each.stop()
        each.close()
    print("ok")


if __name__ == "__main__":
    main()
