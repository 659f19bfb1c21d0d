package oxkeeper.curator;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;

/**
 * Runs Curator's recipes for tests in which Rust clients use the same nodes ({@code cargo xtask interop recipes}).
 *
 * <p>Reads lines {@code <id> <server> <session timeout in ms> <task> <root> [argument ...]}. Runs each task in a separate
 * thread with a separate client, and replies {@code <id> ok <result>} or {@code <id> fail <reason>}.
 */
public final class CuratorWorker {
    private static final int CONNECT_TIMEOUT_MS = 20_000;

    private static final Map<String, Task> TASKS = new TreeMap<>();

    private CuratorWorker() {}

    /** A task; its result becomes a part of the reply. */
    interface Task {
        String run(CuratorFramework curator, String root, String[] arguments) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Locks.addTo(TASKS);
        Coordination.addTo(TASKS);
        Queues.addTo(TASKS);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split(" ");
            Thread thread = new Thread(() -> run(words), line);
            thread.setDaemon(true);
            thread.start();
        }
        System.exit(0);
    }

    private static void run(String[] words) {
        String reply;
        try (CuratorFramework curator = connect(words[1], Integer.parseInt(words[2]))) {
            String[] arguments = Arrays.copyOfRange(words, 5, words.length);
            reply = "ok " + TASKS.get(words[3]).run(curator, words[4], arguments);
        } catch (Throwable e) {
            e.printStackTrace();
            reply = "fail " + String.valueOf(e).replace('\n', ' ');
        }
        print(words[0] + " " + reply);
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static CuratorFramework connect(String server, int sessionTimeoutMs) throws InterruptedException {
        CuratorFramework curator = CuratorFrameworkFactory.builder()
                .connectString(server)
                .sessionTimeoutMs(sessionTimeoutMs)
                .connectionTimeoutMs(CONNECT_TIMEOUT_MS)
                .retryPolicy(new RetryNTimes(400, 50))
                .build();
        curator.start();
        if (!curator.blockUntilConnected(CONNECT_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("no connection to " + server);
        }
        return curator;
    }
}
