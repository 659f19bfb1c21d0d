"""One side of a GSSAPI exchange with MIT's library, over standard input and output: one line per token in base64, "null" for
none, then "DONE <name>" or "FAILED <reason>".

gss_peer.py client|server <service> <host>
"""

import base64
import sys

import gssapi


def send(token):
    print("null" if token is None else base64.b64encode(token).decode(), flush=True)


def receive():
    return base64.b64decode(sys.stdin.readline())


def client(name):
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.out_of_sequence_detection
    context = gssapi.SecurityContext(name=name, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags)
    token = context.step()
    while not context.complete:
        send(token)
        token = context.step(receive())
    send(token or b"")
    offer = context.unwrap(receive()).message
    assert offer[0] & 1, offer
    send(context.wrap(b"\x01\x00\x00\x00", False).message)
    return str(context.initiator_name)


def server(name):
    credentials = gssapi.Credentials(name=name, usage="accept")
    context = gssapi.SecurityContext(creds=credentials, usage="accept")
    while not context.complete:
        token = context.step(receive())
        if token or not context.complete:
            send(token)
            if context.complete:
                assert receive() == b""
    send(context.wrap(b"\x01\x00\x00\x00", False).message)
    choice = context.unwrap(receive()).message
    assert choice[0] == 1, choice
    send(None)
    return choice[4:].decode() or str(context.initiator_name)


def main():
    side, service, host = sys.argv[1:]
    name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
    try:
        print("DONE", client(name) if side == "client" else server(name), flush=True)
    except Exception as error:
        print("FAILED", repr(error).replace("\n", " "), flush=True)


main()
