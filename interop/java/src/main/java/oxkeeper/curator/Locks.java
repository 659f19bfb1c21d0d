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

/** Locks and elections. */
final class Locks {
    private Locks() {}

    static void addTo(Map<String, CuratorWorker.Task> tasks) {
        tasks.put("lock", (curator, root, rounds) ->
                takeTurns(new InterProcessMutex(curator, root + "/lock"), new CriticalSection(curator, root), number(rounds[0])));
        tasks.put("multi-lock", (curator, root, rounds) -> takeTurns(
                new InterProcessMultiLock(curator, List.of(root + "/a", root + "/b")), new CriticalSection(curator, root), number(rounds[0])));
        tasks.put("rw-lock", Locks::readAndWrite);
        tasks.put("semaphore", Locks::share);
        tasks.put("latch", Locks::latch);
        tasks.put("selector", Locks::selector);
        tasks.put("hold", Locks::holdUntilAsked);
        tasks.put("revoke", Locks::revoke);
        tasks.put("die", Locks::die);
    }

    static int number(String text) {
        return Integer.parseInt(text);
    }

    private static String takeTurns(InterProcessLock lock, CriticalSection book, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            lock.acquire();
            book.alone();
            lock.release();
        }
        return "";
    }

    private static String readAndWrite(CuratorFramework curator, String root, String[] rounds) throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(curator, root + "/lock");
        CriticalSection book = new CriticalSection(curator, root);
        for (int round = 0; round < number(rounds[0]); round++) {
            if (round % 3 == 0) {
                lock.writeLock().acquire();
                book.alone();
                if (round % 2 == 0) {
                    lock.readLock().acquire(); // as a writer that becomes a reader
                }
                lock.writeLock().release();
            }
            if (round % 3 != 0 || round % 2 != 0) {
                lock.readLock().acquire();
            }
            book.among("r", names -> names.stream().allMatch(name -> name.startsWith("r")));
            lock.readLock().release();
        }
        return "";
    }

    private static String share(CuratorFramework curator, String root, String[] arguments) throws Exception {
        int most = number(arguments[1]);
        InterProcessSemaphoreV2 pool = new InterProcessSemaphoreV2(curator, root + "/pool", most);
        CriticalSection book = new CriticalSection(curator, root);
        for (int round = 0; round < number(arguments[0]); round++) {
            Lease lease = pool.acquire();
            book.among("r", names -> names.size() <= most);
            pool.returnLease(lease);
        }
        return "";
    }

    private static String latch(CuratorFramework curator, String root, String[] rounds) throws Exception {
        CriticalSection book = new CriticalSection(curator, root);
        for (int round = 0; round < number(rounds[0]); round++) {
            try (LeaderLatch latch = new LeaderLatch(curator, root + "/latch", "curator")) {
                latch.start();
                latch.await();
                book.alone();
            }
        }
        return "";
    }

    private static String selector(CuratorFramework curator, String root, String[] rounds) throws Exception {
        CountDownLatch terms = new CountDownLatch(number(rounds[0]));
        AtomicReference<Throwable> failure = new AtomicReference<>();
        CriticalSection book = new CriticalSection(curator, root);
        LeaderSelector selector = new LeaderSelector(curator, root + "/selector", new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) {
                if (terms.getCount() == 0) {
                    return;
                }
                try {
                    book.alone();
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

    /** Holds the lock until somebody asks for it. */
    private static String holdUntilAsked(CuratorFramework curator, String root, String[] none) throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        InterProcessMutex lock = new InterProcessMutex(curator, root + "/lock");
        lock.makeRevocable(held -> asked.countDown());
        lock.acquire();
        asked.await();
        lock.release();
        return "asked";
    }

    private static String revoke(CuratorFramework curator, String root, String[] none) throws Exception {
        InterProcessMutex lock = new InterProcessMutex(curator, root + "/lock");
        Revoker.attemptRevoke(curator, lock.getParticipantNodes().iterator().next());
        return "";
    }

    /** Takes the lock and ends as a killed program does. */
    private static String die(CuratorFramework curator, String root, String[] none) throws Exception {
        new InterProcessMutex(curator, root + "/lock").acquire();
        Runtime.getRuntime().halt(0);
        return "";
    }
}
