"""Cases of kazoo's recipes, each with separate clients."""

import datetime
import threading
import time

from kazoo.exceptions import LockTimeout
from kazoo.recipe.cache import TreeCache
from kazoo.recipe.lease import NonBlockingLease
from kazoo.recipe.partitioner import SetPartitioner
from suite import Events, equal, eventually, raises, together


def lock(case):
    clients = [case.connect(), case.connect()]
    inside = []
    rounds = []

    def work(index):
        recipe = clients[index % 2].Lock(case.path("lock"), "worker %d" % index)
        for _ in range(5):
            with recipe:
                inside.append(index)
                equal(1, len(inside))
                time.sleep(0.002)
                inside.pop()
                rounds.append(index)

    together(4, work)
    equal(20, len(rounds))
    held = clients[0].Lock(case.path("lock"), "holder")
    assert held.acquire()
    waiting = clients[1].Lock(case.path("lock"), "waiter")
    equal(False, waiting.acquire(blocking=False))
    raises(LockTimeout, waiting.acquire, timeout=0.2)
    equal(["holder"], waiting.contenders())
    held.release()
    assert waiting.acquire(timeout=5)
    waiting.release()


def read_write_lock(case):
    first, second = case.connect(), case.connect()
    read, other_read = first.ReadLock(case.path("lock")), second.ReadLock(case.path("lock"))
    write = second.WriteLock(case.path("lock"))
    assert read.acquire(timeout=5)
    assert other_read.acquire(timeout=5)
    raises(LockTimeout, write.acquire, timeout=0.2)
    read.release()
    other_read.release()
    assert write.acquire(timeout=5)
    raises(LockTimeout, read.acquire, timeout=0.2)
    write.release()


def semaphore(case):
    client = case.connect()
    first, second, third = [client.Semaphore(case.path("semaphore"), max_leases=2) for _ in range(3)]
    assert first.acquire()
    assert second.acquire()
    equal(False, third.acquire(blocking=False))
    equal(2, len(third.lease_holders()))
    first.release()
    assert third.acquire(timeout=5)
    second.release()
    third.release()


def lock_of_expired_session(case):
    lost = case.connect_by_proxy(timeout=2.0)
    assert lost.Lock(case.path("lock")).acquire()
    next_lock = case.connect().Lock(case.path("lock"))
    case.command("block")
    assert next_lock.acquire(timeout=10)
    case.command("open")


def election(case):
    leaders = Events()
    release = threading.Event()
    first = case.connect().Election(case.path("election"), "one")
    second = case.connect().Election(case.path("election"), "two")

    def lead(name):
        leaders(name)
        release.wait(10)

    threads = [threading.Thread(target=first.run, args=(lead, "one"), daemon=True)]
    threads[0].start()
    equal("one", leaders.next())
    threads.append(threading.Thread(target=second.run, args=(lead, "two"), daemon=True))
    threads[1].start()
    eventually("two contenders", lambda: first.contenders() == ["one", "two"])
    release.set()
    equal("two", leaders.next())
    for thread in threads:
        thread.join(10)


def barrier(case):
    setter, waiter = case.connect().Barrier(case.path("barrier")), case.connect().Barrier(case.path("barrier"))
    setter.create()
    equal(False, waiter.wait(0.2))
    setter.remove()
    equal(True, waiter.wait(5))


def double_barrier(case):
    clients = [case.connect() for _ in range(3)]
    entered = []

    def work(index):
        recipe = clients[index].DoubleBarrier(case.path("barrier"), 3)
        entered.append(index)
        recipe.enter()
        equal(3, len(entered))
        recipe.leave()

    together(3, work)


def queue(case):
    producer, consumer = case.connect().Queue(case.path("queue")), case.connect().Queue(case.path("queue"))
    equal(None, consumer.get())
    for item in (b"one", b"two", b"three"):
        producer.put(item)
    producer.put(b"urgent", priority=1)
    equal(4, len(consumer))
    equal([b"urgent", b"one", b"two", b"three"], [consumer.get() for _ in range(4)])


def locking_queue(case):
    producer = case.connect().LockingQueue(case.path("queue"))
    first, second = case.connect().LockingQueue(case.path("queue")), case.connect().LockingQueue(case.path("queue"))
    producer.put_all([b"one", b"two"])
    equal(b"one", first.get(5))
    equal(b"two", second.get(5))
    assert first.consume() and second.consume()
    equal(None, first.get(0.2))
    producer.put(b"kept")
    equal(b"kept", first.get(5))
    first.release()
    equal(b"kept", second.get(5))
    assert second.holds_lock()
    second.consume()


def party(case):
    first, second = case.connect().Party(case.path("party"), "one"), case.connect().Party(case.path("party"), "two")
    first.join()
    second.join()
    equal({"one", "two"}, set(first))
    second.leave()
    equal({"one"}, set(first))
    shallow = case.connect().ShallowParty(case.path("shallow"), "three")
    shallow.join()
    equal(["three"], list(shallow))


def counter(case):
    clients = [case.connect(), case.connect()]

    def count(index):
        recipe = clients[index].Counter(case.path("counter"))
        for _ in range(10):
            recipe += 2

    together(2, count)
    equal(40, clients[0].Counter(case.path("counter")).value)
    fraction = clients[0].Counter(case.path("fraction"), default=1.5)
    fraction += 0.25
    equal(1.75, fraction.value)


def set_partitioner(case):
    def partition(client, name):
        return SetPartitioner(client, case.path("set"), set=range(6), identifier=name, time_boundary=0.3)

    clients = [case.connect(), case.connect()]
    first = partition(clients[0], "one")
    first.wait_for_acquire(5)
    eventually("the only member has all partitions", lambda: first.acquired)
    equal(set(range(6)), set(first))
    second = partition(clients[1], "two")
    eventually("the second member is seen", lambda: first.release)
    first.release_set()

    def settled():
        for each in (first, second):
            if each.allocating:
                each.wait_for_acquire(0.2)
            elif each.release:
                each.release_set()
        return first.acquired and second.acquired

    eventually("both members have partitions", settled)
    equal((3, 3), (len(list(first)), len(list(second))))
    equal(set(range(6)), set(first) | set(second))
    first.finish()
    second.finish()


def lease(case):
    minute = datetime.timedelta(minutes=1)
    assert NonBlockingLease(case.connect(), case.path("lease"), minute, identifier="one")
    assert not NonBlockingLease(case.connect(), case.path("lease"), minute, identifier="two")


def tree_cache(case):
    case.zk.create(case.path("a"), b"1")
    client = case.connect()
    cache = TreeCache(client, case.root)
    cache.start()
    eventually("the cache fills", lambda: cache.get_data(case.path("a")) is not None)
    case.zk.set(case.path("a"), b"2")
    case.zk.create(case.path("a/b"))
    eventually("new data", lambda: cache.get_data(case.path("a")).data == b"2")
    eventually("new child", lambda: cache.get_children(case.path("a")) == {"b"})
    case.zk.delete(case.path("a/b"))
    eventually("child gone", lambda: not cache.get_children(case.path("a")))
    cache.close()


CASES = [
    lock,
    read_write_lock,
    semaphore,
    lock_of_expired_session,
    election,
    barrier,
    double_barrier,
    queue,
    locking_queue,
    party,
    counter,
    set_partitioner,
    lease,
    tree_cache,
]
