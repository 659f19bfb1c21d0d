package oxkeeper.interop;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.ZooKeeper;

/** Runs cases one after the other, each with a time limit, and prints a line for each. */
final class Suite {
    private static final int CASE_TIMEOUT_S = 30;

    private final Fixture stage;
    private final String filter;
    /** Shared by the cases, because closing a client takes 100 ms; a failed case leaves it to nobody. */
    private ZooKeeper looking;
    private int passed;
    private int failed;
    private int skipped;

    Suite(Fixture stage, String filter) {
        this.stage = stage;
        this.filter = filter;
    }

    /** What a case does. */
    interface Body {
        void run(Case test) throws Exception;
    }

    /** Ends a case that this server cannot run. */
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
            try (Case test = new Case(stage, looking(), name)) {
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
            say("ok   " + name + " " + (System.nanoTime() - start) / 1_000_000);
        } catch (ExecutionException e) {
            report(name, e.getCause());
        } catch (TimeoutException e) {
            StringBuilder where = new StringBuilder("not done after " + CASE_TIMEOUT_S + " s, at");
            for (StackTraceElement frame : thread.getStackTrace()) {
                if (frame.getClassName().startsWith("oxkeeper")) {
                    where.append(' ').append(frame);
                }
            }
            thread.interrupt();
            looking = null;
            failed++;
            say("fail " + name + " " + where);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Prints the closing line and returns the exit code. */
    int finish() {
        say("java: " + passed + " passed, " + failed + " failed, " + skipped + " skipped");
        return failed == 0 ? 0 : 1;
    }

    private ZooKeeper looking() throws Exception {
        if (looking == null) {
            Events events = new Events();
            looking = new ZooKeeper(stage.server(), Case.TIMEOUT_MS, events);
            events.awaitConnected();
            looking.addAuthInfo("digest", "super:test".getBytes());
        }
        return looking;
    }

    private void report(String name, Throwable cause) {
        if (cause instanceof Skip) {
            skipped++;
            say("skip " + name + " " + cause.getMessage());
            return;
        }
        failed++;
        looking = null;
        cause.printStackTrace();
        say("fail " + name + " " + String.valueOf(cause).replace('\n', ' '));
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
