import java.io.File;
import java.io.IOException;
import java.util.Collections;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import oxkeeper.testing.TestingServer;

/** What another project does with the library. Run by `cargo xtask dist --only jar --check`. */
public final class Example {
    private Example() {
    }

    public static void main(String[] arguments) throws Exception {
        nodesAndPortSurviveRestart();
        serversArePrivate();
        badSettingIsReported();
        System.out.println("all passed");
    }

    private static void nodesAndPortSurviveRestart() throws Exception {
        File directory;
        try (TestingServer server = new TestingServer(); CuratorFramework client = client(server)) {
            client.create().creatingParentsIfNeeded().forPath("/app/config", "1".getBytes());
            int port = server.getPort();
            server.restart();
            check(server.getPort() == port, "the port changed");
            check(new String(client.getData().forPath("/app/config")).equals("1"), "the data is lost");
            directory = server.getTempDirectory();
        }
        check(!directory.exists(), "the directory is still there");
    }

    private static void serversArePrivate() throws Exception {
        try (TestingServer first = new TestingServer(); TestingServer second = new TestingServer(true);
                CuratorFramework client = client(second)) {
            check(first.getPort() != second.getPort(), "the servers share a port");
            check(client.getChildren().forPath("/").equals(Collections.singletonList("zookeeper")), "it is not empty");
        }
    }

    private static void badSettingIsReported() throws Exception {
        try (TestingServer server = new TestingServer(0, null, false, Collections.singletonMap("tickTime", "soon"))) {
            server.start();
            throw new AssertionError("it started");
        } catch (IOException e) {
            check(e.getMessage().contains("tickTime"), e.getMessage());
        }
    }

    private static CuratorFramework client(TestingServer server) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(server.getConnectString(), new RetryNTimes(600, 100));
        client.start();
        return client;
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
