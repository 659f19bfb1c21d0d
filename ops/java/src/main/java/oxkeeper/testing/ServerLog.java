package oxkeeper.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads the log of a server, one JSON object per line, so that the server is never blocked. */
final class ServerLog {
    private static final int LINES_KEPT = 40;
    private static final Pattern ADDRESS = Pattern.compile("\"address\":\"[^\"]*:(\\d+)\"");

    private final ArrayDeque<String> lines = new ArrayDeque<>();
    private final CompletableFuture<Integer> port = new CompletableFuture<>();

    ServerLog(Process process) {
        Thread reader = new Thread(() -> read(process), "oxkeeper-log");
        reader.setDaemon(true);
        reader.start();
    }

    /** The port of the server when it serves clients; 0 if it ended before, or is too slow. */
    int awaitPort(long timeoutMs) {
        try {
            return port.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 0;
        } catch (ExecutionException | TimeoutException e) {
            return 0;
        }
    }

    String lastLines() {
        synchronized (lines) {
            return String.join("\n", lines);
        }
    }

    private void read(Process process) {
        try (BufferedReader log =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = log.readLine(); line != null; line = log.readLine()) {
                synchronized (lines) {
                    lines.addLast(line);
                    if (lines.size() > LINES_KEPT) {
                        lines.removeFirst();
                    }
                }
                Matcher address = ADDRESS.matcher(line);
                if (line.contains("\"message\":\"ready\"") && address.find()) {
                    port.complete(Integer.parseInt(address.group(1)));
                }
            }
        } catch (IOException e) {
            // The process has ended.
        }
        port.complete(0);
    }
}
