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
 * Curator as somebody else sees it: takes part in what another program does on the same server.
 *
 * <p>Reads lines {@code <number> <server> <session timeout> <task> <root> [argument ...]}, does each on a thread and with a client of its
 * own, and answers {@code <number> ok <result>} or {@code <number> fail <why>} when it is done.
 */
public final class CuratorWorker {
    private static final int CONNECT_TIMEOUT_MS = 20_000;

    private static final Map<String, Task> TASKS = new TreeMap<>();

    private CuratorWorker() {}

    /** What a line asks for; the result goes into the answer. */
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
            Thread thread = new Thread(() -> answer(words), line);
            thread.setDaemon(true);
            thread.start();
        }
        System.exit(0);
    }

    private static void answer(String[] words) {
        String answer;
        try (CuratorFramework curator = connect(words[1], Integer.parseInt(words[2]))) {
            String[] arguments = Arrays.copyOfRange(words, 5, words.length);
            answer = "ok " + TASKS.get(words[3]).run(curator, words[4], arguments);
        } catch (Throwable e) {
            e.printStackTrace();
            answer = "fail " + String.valueOf(e).replace('\n', ' ');
        }
        say(words[0] + " " + answer);
    }

    static synchronized void say(String line) {
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
