"""The server under test, a proxy in front of it, and the control port that injects faults."""

import socket
import sys


class ExternalServer(Exception):
    """The control port can only restart a server that xtask started."""


class Fixture:
    def __init__(self, arguments):
        if len(arguments) < 3:
            sys.exit("usage: %s server proxy control" % sys.argv[0])
        self.server, self.proxy, self.control = arguments[:3]

    def command(self, command):
        """Sends a control command and waits for its reply, which follows its effect."""
        host, port = self.control.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(command.encode() + b"\n")
            reply = connection.makefile().readline().strip()
        if reply == "error: not our server":
            raise ExternalServer("xtask did not start the server")
        if reply != "ok":
            raise RuntimeError("%s: %s" % (command, reply))
