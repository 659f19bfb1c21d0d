package oxkeeper.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Cases of Curator's locks, elections and barriers. */
final class LockRecipes {
    private LockRecipes() {}

    static void addTo(Suite suite) {
        suite.test("curator mutex", LockRecipes::mutex);
        suite.test("curator mutex is released by expiry", LockRecipes::mutexExpiry);
        suite.test("curator read write lock", LockRecipes::readWriteLock);
        suite.test("curator semaphore", LockRecipes::semaphore);
        suite.test("curator multi lock", LockRecipes::multiLock);
        suite.test("curator leader latch", LockRecipes::leaderLatch);
        suite.test("curator leader selector", LockRecipes::leaderSelector);
        suite.test("curator barrier", LockRecipes::barrier);
        suite.test("curator double barrier", LockRecipes::doubleBarrier);
    }

    private static void mutex(Case test) throws Exception {
        List<CuratorFramework> clients = List.of(test.curator(), test.curator());
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger rounds = new AtomicInteger();
        together(4, index -> {
            InterProcessMutex mutex = new InterProcessMutex(clients.get(index % 2), test.path("lock"));
            for (int i = 0; i < 10; i++) {
                Check.isTrue(mutex.acquire(10, TimeUnit.SECONDS), "the lock is acquired");
                Check.equal(1, inside.incrementAndGet());
                mutex.acquire();
                Thread.sleep(1);
                inside.decrementAndGet();
                rounds.incrementAndGet();
                mutex.release();
                mutex.release();
            }
        });
        Check.equal(40, rounds.get());
        InterProcessMutex held = new InterProcessMutex(clients.get(0), test.path("lock"));
        held.acquire();
        Check.isTrue(!new InterProcessMutex(clients.get(1), test.path("lock")).acquire(200, TimeUnit.MILLISECONDS),
                "a held lock is not acquired");
        Check.equal(1, held.getParticipantNodes().size());
        held.release();
    }

    private static void mutexExpiry(Case test) throws Exception {
        InterProcessMutex lost = new InterProcessMutex(test.curatorByProxy(Case.SHORT_TIMEOUT_MS), test.path("lock"));
        lost.acquire();
        InterProcessMutex next = new InterProcessMutex(test.curator(), test.path("lock"));
        test.command("block");
        Check.isTrue(next.acquire(10, TimeUnit.SECONDS), "the lock of an expired session is free");
        next.release();
    }

    private static void readWriteLock(Case test) throws Exception {
        InterProcessReadWriteLock first = new InterProcessReadWriteLock(test.curator(), test.path("lock"));
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(test.curator(), test.path("lock"));
        first.readLock().acquire();
        Check.isTrue(second.readLock().acquire(5, TimeUnit.SECONDS), "two readers share");
        Check.isTrue(!second.writeLock().acquire(200, TimeUnit.MILLISECONDS), "a writer waits for readers");
        second.readLock().release();
        first.readLock().release();
        Check.isTrue(second.writeLock().acquire(5, TimeUnit.SECONDS), "a writer acquires the free lock");
        Check.isTrue(!first.readLock().acquire(200, TimeUnit.MILLISECONDS), "a reader waits for a writer");
        Check.isTrue(second.readLock().acquire(5, TimeUnit.SECONDS), "a writer may read");
        second.readLock().release();
        second.writeLock().release();
        Check.isTrue(first.readLock().acquire(5, TimeUnit.SECONDS), "a reader acquires the released lock");
        first.readLock().release();
    }

    private static void semaphore(Case test) throws Exception {
        InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(test.curator(), test.path("semaphore"), 2);
        InterProcessSemaphoreV2 second = new InterProcessSemaphoreV2(test.curator(), test.path("semaphore"), 2);
        Lease one = first.acquire();
        Lease two = second.acquire(5, TimeUnit.SECONDS);
        Check.isTrue(two != null, "the second lease is granted");
        Check.equal(null, first.acquire(200, TimeUnit.MILLISECONDS));
        second.returnLease(two);
        Lease three = first.acquire(5, TimeUnit.SECONDS);
        Check.isTrue(three != null, "a returned lease is granted again");
        first.returnAll(List.of(one, three));
        Check.equal(0, first.getParticipantNodes().size());
    }

    private static void multiLock(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        InterProcessMultiLock both = new InterProcessMultiLock(curator, List.of(test.path("a"), test.path("b")));
        both.acquire();
        InterProcessMutex single = new InterProcessMutex(test.curator(), test.path("b"));
        Check.isTrue(!single.acquire(200, TimeUnit.MILLISECONDS), "both locks are held");
        both.release();
        Check.isTrue(single.acquire(5, TimeUnit.SECONDS), "both locks are free");
        single.release();
    }

    private static void leaderLatch(Case test) throws Exception {
        LeaderLatch first = new LeaderLatch(test.curatorByProxy(Case.SHORT_TIMEOUT_MS), test.path("latch"), "first");
        first.start();
        Check.isTrue(first.await(10, TimeUnit.SECONDS), "the first client leads");
        LeaderLatch second = new LeaderLatch(test.curator(), test.path("latch"), "second");
        second.start();
        Check.eventually("two participants", () -> second.getParticipants().size() == 2);
        Check.equal("first", second.getLeader().getId());
        Check.isTrue(!second.hasLeadership(), "only one client leads");
        test.command("block");
        Check.isTrue(second.await(10, TimeUnit.SECONDS), "the second client leads after the first has lost its connection");
        Check.eventually("the first client knows that it no longer leads", () -> !first.hasLeadership());
        test.command("open");
        Check.eventually("the first client is a participant again", () -> second.getParticipants().size() == 2);
        second.close();
        Check.isTrue(first.await(10, TimeUnit.SECONDS), "the first client leads again");
        first.close();
    }

    private static void leaderSelector(Case test) throws Exception {
        AtomicInteger leaders = new AtomicInteger();
        CountDownLatch turns = new CountDownLatch(6);
        for (int i = 0; i < 2; i++) {
            LeaderSelector selector = new LeaderSelector(test.curator(), test.path("selector"), new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    if (leaders.incrementAndGet() == 1) {
                        turns.countDown();
                    }
                    Thread.sleep(5);
                    leaders.decrementAndGet();
                }
            });
            selector.autoRequeue();
            selector.start();
            test.closeLater(selector);
        }
        Check.isTrue(turns.await(20, TimeUnit.SECONDS), "leadership changes between the clients");
    }

    private static void barrier(Case test) throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(test.curator(), test.path("barrier"));
        barrier.setBarrier();
        DistributedBarrier waiting = new DistributedBarrier(test.curator(), test.path("barrier"));
        Check.isTrue(!waiting.waitOnBarrier(200, TimeUnit.MILLISECONDS), "a set barrier blocks");
        barrier.removeBarrier();
        Check.isTrue(waiting.waitOnBarrier(5, TimeUnit.SECONDS), "a removed barrier does not block");
    }

    private static void doubleBarrier(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        AtomicInteger entered = new AtomicInteger();
        together(3, index -> {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(curator, test.path("barrier"), 3);
            entered.incrementAndGet();
            Check.isTrue(barrier.enter(10, TimeUnit.SECONDS), "all enter");
            Check.equal(3, entered.get());
            Check.isTrue(barrier.leave(10, TimeUnit.SECONDS), "all leave");
        });
    }

    /** The code of one of several threads. */
    interface Task {
        void run(int index) throws Exception;
    }

    /** Runs a task in several threads and waits for all of them. */
    static void together(int threads, Task task) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Callable<Void>> tasks = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                int index = i;
                tasks.add(() -> {
                    task.run(index);
                    return null;
                });
            }
            for (Future<Void> result : pool.invokeAll(tasks)) {
                result.get();
            }
        } finally {
            pool.shutdownNow();
        }
    }
}
