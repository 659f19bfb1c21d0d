"""The server under test, a proxy before it, and the port that disturbs both."""

import socket
import sys


class NotOurs(Exception):
    """The server was not started by xtask, so it cannot be restarted."""


class Stage:
    def __init__(self, arguments):
        if len(arguments) < 3:
            sys.exit("usage: %s server proxy control" % sys.argv[0])
        self.server, self.proxy, self.control = arguments[:3]

    def command(self, word):
        """Sends a control command and waits until it has taken effect."""
        host, port = self.control.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(word.encode() + b"\n")
            answer = connection.makefile().readline().strip()
        if answer == "error: not our server":
            raise NotOurs(answer)
        if answer != "ok":
            raise RuntimeError("%s: %s" % (word, answer))
