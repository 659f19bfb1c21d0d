package oxkeeper.interop;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.ZooKeeper;

/** Runs cases one after the other, each with a time limit, and prints one line per case. */
final class Suite {
    private static final int CASE_TIMEOUT_S = 30;

    private final Fixture fixture;
    private final String filter;
    /** Shared by the cases, because closing a client takes 100 ms. Replaced after a failed case. */
    private ZooKeeper superClient;
    private int passed;
    private int failed;
    private int skipped;

    Suite(Fixture fixture, String filter) {
        this.fixture = fixture;
        this.filter = filter;
    }

    /** The code that a case runs. */
    interface Body {
        void run(Case test) throws Exception;
    }

    /** Ends a case that cannot run on this server. */
    static final class Skip extends RuntimeException {
        private static final long serialVersionUID = 1;

        Skip(String why) {
            super(why);
        }
    }

    void test(String name, Body body) {
        if (!name.contains(filter)) {
            return;
        }
        long start = System.nanoTime();
        FutureTask<Void> task = new FutureTask<>(() -> {
            try (Case test = new Case(fixture, superClient(), name)) {
                body.run(test);
            }
            return null;
        });
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(CASE_TIMEOUT_S, TimeUnit.SECONDS);
            passed++;
            print("ok   " + name + " " + (System.nanoTime() - start) / 1_000_000);
        } catch (ExecutionException e) {
            report(name, e.getCause());
        } catch (TimeoutException e) {
            StringBuilder where = new StringBuilder("did not finish within " + CASE_TIMEOUT_S + " s, at");
            for (StackTraceElement frame : thread.getStackTrace()) {
                if (frame.getClassName().startsWith("oxkeeper")) {
                    where.append(' ').append(frame);
                }
            }
            thread.interrupt();
            superClient = null;
            failed++;
            print("fail " + name + " " + where);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Prints the summary line and returns the exit code. */
    int finish() {
        print("java: " + passed + " passed, " + failed + " failed, " + skipped + " skipped");
        return failed == 0 ? 0 : 1;
    }

    private ZooKeeper superClient() throws Exception {
        if (superClient == null) {
            Events events = new Events();
            superClient = new ZooKeeper(fixture.server(), Case.TIMEOUT_MS, events);
            events.awaitConnected();
            superClient.addAuthInfo("digest", "super:test".getBytes());
        }
        return superClient;
    }

    private void report(String name, Throwable cause) {
        if (cause instanceof Skip) {
            skipped++;
            print("skip " + name + " " + cause.getMessage());
            return;
        }
        failed++;
        superClient = null;
        cause.printStackTrace();
        print("fail " + name + " " + String.valueOf(cause).replace('\n', ' '));
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
