package oxkeeper.testing;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A standalone ZooKeeper server for tests, with the methods of Curator's class of this name. It runs the Oxkeeper
 * binary as a process, on 127.0.0.1. The server keeps its port and its data when it is stopped and started again;
 * {@link #close} removes them.
 */
public class TestingServer implements Closeable {
    private static final long TIMEOUT_MS = 60_000;

    private final File directory;
    private final boolean isTemporary;
    private final Map<String, String> settings;
    private final Thread atExit = new Thread(this::kill, "oxkeeper-at-exit");
    private int port;
    private Process process;

    /** Starts a server on a free port. */
    public TestingServer() throws IOException {
        this(0, null, true);
    }

    /** A server on a free port. */
    public TestingServer(boolean start) throws IOException {
        this(0, null, start);
    }

    /** Starts a server on this port. */
    public TestingServer(int port) throws IOException {
        this(port, null, true);
    }

    /** A server on this port. */
    public TestingServer(int port, boolean start) throws IOException {
        this(port, null, start);
    }

    /** Starts a server with its data in this directory. */
    public TestingServer(int port, File directory) throws IOException {
        this(port, directory, true);
    }

    /** A server with its data in this directory; in a temporary one if it is null. Port -1 or 0 is a free one. */
    public TestingServer(int port, File directory, boolean start) throws IOException {
        this(port, directory, start, Collections.emptyMap());
    }

    /** The same, with additional settings of zoo.cfg. */
    public TestingServer(int port, File directory, boolean start, Map<String, String> settings) throws IOException {
        this.port = Math.max(port, 0);
        this.isTemporary = directory == null;
        this.directory = isTemporary ? Files.createTempDirectory("oxkeeper-").toFile() : directory;
        this.settings = new LinkedHashMap<>(settings);
        Runtime.getRuntime().addShutdownHook(atExit);
        if (start) {
            start();
        }
    }

    /** The port for clients. A free one is known after the first start. */
    public synchronized int getPort() {
        return port;
    }

    /** The directory with the data. */
    public File getTempDirectory() {
        return directory;
    }

    /** The connect string for clients. */
    public String getConnectString() {
        return "127.0.0.1:" + getPort();
    }

    /** Starts the server and returns when it serves clients. */
    public synchronized void start() throws IOException {
        if (process != null && process.isAlive()) {
            return;
        }
        Files.createDirectories(directory.toPath());
        Path config = directory.toPath().resolve("zoo.cfg");
        Files.write(config, config().getBytes(StandardCharsets.UTF_8));
        List<String> command = new ArrayList<>();
        // The options win over the variables of the environment.
        Collections.addAll(command, Binary.path(), "server", config.toString(), "--log", "info", "--log-format", "json");
        process = new ProcessBuilder(command).directory(directory).redirectErrorStream(true).start();
        ServerLog log = new ServerLog(process);
        int serving = log.awaitPort(TIMEOUT_MS);
        if (serving == 0) {
            kill();
            throw new IOException("the server did not start:\n" + log.lastLines());
        }
        port = serving;
    }

    /** Stops the server cleanly. */
    public synchronized void stop() throws IOException {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
                kill();
                throw new IOException("the server did not stop in " + TIMEOUT_MS + " ms and was killed");
            }
        } catch (InterruptedException e) {
            kill();
            Thread.currentThread().interrupt();
        }
        process = null;
    }

    /** Stops and starts the server. Clients reconnect and keep their sessions. */
    public synchronized void restart() throws IOException {
        stop();
        start();
    }

    /** Ends the server as a crash does. */
    public synchronized void kill() {
        if (process != null) {
            process.destroyForcibly();
            try {
                process.waitFor();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            process = null;
        }
    }

    /** Ends the server and removes a temporary directory. */
    @Override
    public void close() throws IOException {
        kill();
        try {
            Runtime.getRuntime().removeShutdownHook(atExit);
        } catch (IllegalStateException e) {
            // The JVM is shutting down.
        }
        if (isTemporary && directory.exists()) {
            List<Path> paths;
            try (Stream<Path> all = Files.walk(directory.toPath())) {
                paths = all.sorted(Comparator.reverseOrder()).collect(Collectors.toList());
            }
            for (Path path : paths) {
                Files.deleteIfExists(path);
            }
        }
    }

    private String config() {
        Map<String, String> lines = new LinkedHashMap<>();
        lines.put("dataDir", new File(directory, "data").getPath());
        lines.put("clientPort", Integer.toString(port));
        lines.put("clientPortAddress", "127.0.0.1");
        lines.put("admin.enableServer", "false");
        lines.put("tickTime", "500");
        lines.put("maxClientCnxns", "0");
        lines.put("4lw.commands.whitelist", "*");
        lines.put("forceSync", "no"); // tests need no protection from power cuts
        lines.put("preAllocSize", "1024");
        lines.putAll(settings);
        return lines.entrySet().stream().map(line -> line.getKey() + "=" + line.getValue() + "\n")
            .collect(Collectors.joining());
    }
}
