"""Runs cases one after the other and prints one line per case."""

import os
import sys
import threading
import time
import traceback

from kazoo.client import KazooClient

CASE_TIMEOUT_S = 30
WAIT_S = 10


class Skip(Exception):
    """Ends a case that cannot run on this server."""


class Case:
    """A running case with a separate root node, and with clients that are stopped at its end."""

    def __init__(self, fixture, name):
        self.fixture = fixture
        self.root = "/kazoo-" + name
        self.clients = []
        self.blocked = False
        # Without the proxy, authenticated as super, to prepare and inspect nodes.
        self.zk = self.connect(auth_data=[("digest", "super:test")])
        self.zk.delete(self.root, recursive=True)
        self.zk.create(self.root)

    def path(self, rest):
        return self.root + "/" + rest

    def connect(self, **options):
        return self._connect(self.fixture.server, **options)

    def connect_by_proxy(self, **options):
        """A client whose connection goes through the proxy."""
        return self._connect(self.fixture.proxy, **options)

    def _connect(self, hosts, **options):
        options.setdefault("timeout", 10.0)
        if "INTEROP_TLS_CA" in os.environ:
            options.update(use_ssl=True, ca=os.environ["INTEROP_TLS_CA"])
        client = KazooClient(hosts=hosts, **options)
        self.clients.append(client)
        client.start(timeout=WAIT_S)
        return client

    def command(self, command):
        self.blocked = command == "block"
        self.fixture.command(command)

    def close(self):
        if self.blocked:
            self.fixture.command("open")
        for client in reversed(self.clients):
            client.stop()
            client.close()


class Events:
    """A watch function that stores the arguments of its calls."""

    def __init__(self):
        self.seen = []
        self.changed = threading.Condition()

    def __call__(self, *event):
        with self.changed:
            self.seen.append(event[0] if len(event) == 1 else event)
            self.changed.notify_all()

    def wait_for(self, what, condition):
        """Waits until the condition holds for the list of all events so far."""
        with self.changed:
            if not self.changed.wait_for(lambda: condition(self.seen), WAIT_S):
                raise AssertionError("expected within %s s: %s; got %s" % (WAIT_S, what, self.seen))

    def next(self):
        self.wait_for("an event", lambda seen: seen)
        with self.changed:
            return self.seen.pop(0)


def equal(expected, actual):
    assert expected == actual, "expected %r, got %r" % (expected, actual)


def raises(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind:
        return
    raise AssertionError("expected %s, got success" % kind.__name__)


def eventually(what, condition):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if deadline < time.monotonic():
            raise AssertionError("expected within %s s: %s" % (WAIT_S, what))
        time.sleep(0.02)


def together(count, function):
    """Runs a function in several threads and raises the first failure."""
    failures = []

    def run(index):
        try:
            function(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CASE_TIMEOUT_S)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "a thread does not end"


def run_cases(fixture, name, cases, part=""):
    """Runs all cases whose name contains `part` and returns the exit code."""
    passed = failed = skipped = 0
    for case in cases:
        if part not in case.__name__:
            continue
        start = time.monotonic()
        outcome = run_case(fixture, case)
        if outcome is None:
            passed += 1
            print("ok   %s %d" % (case.__name__, (time.monotonic() - start) * 1000))
        elif isinstance(outcome, Skip):
            skipped += 1
            print("skip %s %s" % (case.__name__, outcome))
        else:
            failed += 1
            print("fail %s %s: %s" % (case.__name__, type(outcome).__name__, str(outcome).replace("\n", " ")))
    print("%s: %d passed, %d failed, %d skipped" % (name, passed, failed, skipped))
    return 1 if failed else 0


def run_case(fixture, function):
    outcome = [AssertionError("did not finish within %s s" % CASE_TIMEOUT_S)]

    def run():
        case = None
        try:
            case = Case(fixture, function.__name__)
            function(case)
            case.close()
            outcome[0] = None
        except BaseException as failure:
            outcome[0] = failure
            if not isinstance(failure, Skip):
                traceback.print_exc()
            if case is not None:
                case.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(CASE_TIMEOUT_S)
    if thread.is_alive():
        traceback.print_stack(sys._current_frames()[thread.ident])
    return outcome[0]
