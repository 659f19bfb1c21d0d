package oxkeeper.curator;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;

/** Tasks with Curator's locks and elections. */
final class Locks {
    private Locks() {}

    static void addTo(Map<String, CuratorWorker.Task> tasks) {
        tasks.put("lock", (curator, root, rounds) ->
                acquireRepeatedly(new InterProcessMutex(curator, root + "/lock"), new CriticalSection(curator, root), number(rounds[0])));
        tasks.put("multi-lock", (curator, root, rounds) -> acquireRepeatedly(
                new InterProcessMultiLock(curator, List.of(root + "/a", root + "/b")), new CriticalSection(curator, root), number(rounds[0])));
        tasks.put("rw-lock", Locks::readAndWrite);
        tasks.put("semaphore", Locks::share);
        tasks.put("latch", Locks::latch);
        tasks.put("selector", Locks::selector);
        tasks.put("hold", Locks::holdUntilRevoked);
        tasks.put("revoke", Locks::revoke);
        tasks.put("die", Locks::die);
    }

    static int number(String text) {
        return Integer.parseInt(text);
    }

    private static String acquireRepeatedly(InterProcessLock lock, CriticalSection section, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            lock.acquire();
            section.enterExclusively();
            lock.release();
        }
        return "";
    }

    private static String readAndWrite(CuratorFramework curator, String root, String[] rounds) throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(curator, root + "/lock");
        CriticalSection section = new CriticalSection(curator, root);
        for (int round = 0; round < number(rounds[0]); round++) {
            if (round % 3 == 0) {
                lock.writeLock().acquire();
                section.enterExclusively();
                if (round % 2 == 0) {
                    lock.readLock().acquire(); // downgrade
                }
                lock.writeLock().release();
            }
            if (round % 3 != 0 || round % 2 != 0) {
                lock.readLock().acquire();
            }
            section.enterShared(names -> names.stream().allMatch(name -> name.startsWith("r")));
            lock.readLock().release();
        }
        return "";
    }

    private static String share(CuratorFramework curator, String root, String[] arguments) throws Exception {
        int limit = number(arguments[1]);
        InterProcessSemaphoreV2 pool = new InterProcessSemaphoreV2(curator, root + "/pool", limit);
        CriticalSection section = new CriticalSection(curator, root);
        for (int round = 0; round < number(arguments[0]); round++) {
            Lease lease = pool.acquire();
            section.enterShared(names -> names.size() <= limit);
            pool.returnLease(lease);
        }
        return "";
    }

    private static String latch(CuratorFramework curator, String root, String[] rounds) throws Exception {
        CriticalSection section = new CriticalSection(curator, root);
        for (int round = 0; round < number(rounds[0]); round++) {
            try (LeaderLatch latch = new LeaderLatch(curator, root + "/latch", "curator")) {
                latch.start();
                latch.await();
                section.enterExclusively();
            }
        }
        return "";
    }

    private static String selector(CuratorFramework curator, String root, String[] rounds) throws Exception {
        CountDownLatch terms = new CountDownLatch(number(rounds[0]));
        AtomicReference<Throwable> failure = new AtomicReference<>();
        CriticalSection section = new CriticalSection(curator, root);
        LeaderSelector selector = new LeaderSelector(curator, root + "/selector", new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) {
                if (terms.getCount() == 0) {
                    return;
                }
                try {
                    section.enterExclusively();
                } catch (Throwable e) {
                    failure.set(e);
                }
                terms.countDown();
            }
        });
        selector.setId("curator");
        selector.autoRequeue();
        selector.start();
        terms.await();
        selector.close();
        if (failure.get() != null) {
            throw new AssertionError(failure.get());
        }
        return "";
    }

    /** Holds the lock until another client requests its revocation. */
    private static String holdUntilRevoked(CuratorFramework curator, String root, String[] none) throws Exception {
        CountDownLatch revoked = new CountDownLatch(1);
        InterProcessMutex lock = new InterProcessMutex(curator, root + "/lock");
        lock.makeRevocable(held -> revoked.countDown());
        lock.acquire();
        revoked.await();
        lock.release();
        return "revoked";
    }

    private static String revoke(CuratorFramework curator, String root, String[] none) throws Exception {
        InterProcessMutex lock = new InterProcessMutex(curator, root + "/lock");
        Revoker.attemptRevoke(curator, lock.getParticipantNodes().iterator().next());
        return "";
    }

    /** Acquires the lock and ends the process without closing the session. */
    private static String die(CuratorFramework curator, String root, String[] none) throws Exception {
        new InterProcessMutex(curator, root + "/lock").acquire();
        Runtime.getRuntime().halt(0);
        return "";
    }
}
