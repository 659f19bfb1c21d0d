"""A ZooKeeper server for tests: the Oxkeeper binary, started and stopped from Python.

    from oxkeeper import Server

    with Server() as server:
        client = KazooClient(hosts=server.hosts)

With pytest, the fixture ``oxkeeper_server`` is such a server for one test.
"""

import collections
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading

__all__ = ["Server", "ServerError", "binary"]
__version__ = "@VERSION@"

# Log lines that an error quotes.
_LINES_KEPT = 40


class ServerError(Exception):
    """The server did not start, or did not stop."""


def binary():
    """The path of the program: ``OXKEEPER_BINARY`` of the environment, that of this package, or one on PATH."""
    given = os.environ.get("OXKEEPER_BINARY")
    if given:
        return given
    installed = pathlib.Path(sysconfig.get_path("scripts")) / "oxkeeper"
    found = str(installed) if installed.is_file() else shutil.which("oxkeeper")
    if not found:
        raise ServerError("the program oxkeeper is neither installed nor on PATH; set OXKEEPER_BINARY")
    return found


class Server:
    """A standalone server on 127.0.0.1, by default on a free port and with its data in a temporary directory.

    ``settings`` are keys of zoo.cfg, ``properties`` are system properties as ZooKeeper's Java names them. The server
    keeps its port and its data when it is stopped and started again. ``close`` removes a temporary directory.
    """

    def __init__(self, port=0, directory=None, settings=None, properties=None, timeout=60):
        self._port = port
        self._temporary = None if directory else tempfile.mkdtemp(prefix="oxkeeper-")
        self.directory = pathlib.Path(directory or self._temporary)
        self._settings = dict(settings or {})
        self._properties = dict(properties or {})
        self._timeout = timeout
        self._process = None
        self._lines = collections.deque(maxlen=_LINES_KEPT)

    @property
    def port(self):
        """The port for clients; known after the first start."""
        return self._port

    @property
    def hosts(self):
        """The connect string for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def start(self):
        """Starts the server and returns when it serves clients."""
        if self.is_running:
            return self
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        config.write_text(self._config())
        # The options win over the variables of the environment.
        command = [binary(), "server", str(config), "--log", "info", "--log-format", "json", "--log-to", "stderr"]
        command += [f"-D{name}={value}" for name, value in self._properties.items()]
        environment = dict(os.environ)
        if threading.current_thread() is threading.main_thread():
            # The kernel stops it if this process is killed. That would happen at the end of any other thread, too.
            environment["OXKEEPER_ENDS_WITH_PARENT"] = "1"
        self._lines.clear()
        self._process = subprocess.Popen(
            command, cwd=self.directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace")
        ports = queue.Queue()
        threading.Thread(target=self._read_log, args=(self._process, ports), daemon=True).start()
        try:
            port = ports.get(timeout=self._timeout)
        except queue.Empty:
            port = None
        if port is None:
            self.kill()
            raise ServerError("the server did not start:\n" + "\n".join(self._lines))
        self._port = port
        return self

    def stop(self):
        """Stops the server cleanly. Its port and data stay for another start."""
        self._end(signal.SIGTERM)

    def kill(self):
        """Ends the server as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self):
        """Stops and starts the server. Clients reconnect and keep their sessions."""
        self.stop()
        return self.start()

    def close(self):
        """Ends the server and removes its temporary directory."""
        self.kill()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def _config(self):
        settings = {
            "dataDir": self.directory / "data", "clientPort": self._port, "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false", "tickTime": 500, "maxClientCnxns": 0, "4lw.commands.whitelist": "*",
            # Tests need no protection from power cuts.
            "forceSync": "no", "preAllocSize": 1024,
        }
        settings.update(self._settings)
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _read_log(self, process, ports):
        for line in process.stderr:
            self._lines.append(line.rstrip())
            if '"message":"ready"' in line:
                address = json.loads(line)["fields"]["address"]
                ports.put(int(address.rsplit(":", 1)[1]))
        ports.put(None)  # It ended.

    def _end(self, signal_number):
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal_number)
        try:
            process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerError("the server did not stop:\n" + "\n".join(self._lines)) from None
