package oxkeeper.interop;

import java.util.Arrays;
import java.util.Collection;
import java.util.Objects;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;

/** Assertions with messages for the line of a failed case. */
final class Check {
    private Check() {}

    static void isTrue(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError("expected: " + what);
        }
    }

    static void equal(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    static void bytes(String expected, byte[] actual) {
        equal(expected, actual == null ? null : new String(actual));
    }

    static void bytes(byte[] expected, byte[] actual) {
        if (!Arrays.equals(expected, actual)) {
            throw new AssertionError("byte arrays differ");
        }
    }

    /** The same elements, in any order. */
    static void sameSet(Collection<String> expected, Collection<String> actual) {
        equal(expected.size(), actual.size());
        equal(new TreeSet<>(expected), new TreeSet<>(actual));
    }

    /** An action that may throw a KeeperException. */
    interface Action {
        void run() throws Exception;
    }

    static void fails(Code code, Action action) throws Exception {
        try {
            action.run();
        } catch (KeeperException e) {
            equal(code, e.code());
            return;
        }
        throw new AssertionError("expected " + code + ", got success");
    }

    /** Waits up to 10 s until a condition holds. */
    static void eventually(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!condition.call()) {
            if (deadline < System.nanoTime()) {
                throw new AssertionError("expected within 10 s: " + what);
            }
            Thread.sleep(20);
        }
    }
}
