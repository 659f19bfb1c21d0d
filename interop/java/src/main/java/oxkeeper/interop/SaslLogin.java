package oxkeeper.interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;

/**
 * Authenticates by the section Client of the JAAS file, and uses the identity for a node.
 *
 * <p>Arguments: HOST:PORT, a path, and the expected id, or {@code refused}. Prints {@code ok} or throws.
 */
public final class SaslLogin {
    private static final int TIMEOUT_MS = 30_000;

    private SaslLogin() {}

    public static void main(String[] arguments) throws Exception {
        String server = arguments[0];
        String path = arguments[1];
        String expected = arguments[2];
        CountDownLatch decided = new CountDownLatch(1);
        AtomicReference<KeeperState> state = new AtomicReference<>();
        try (ZooKeeper client = new ZooKeeper(server, TIMEOUT_MS, event -> {
            if (event.getState() == KeeperState.SaslAuthenticated || event.getState() == KeeperState.AuthFailed) {
                state.compareAndSet(null, event.getState());
                decided.countDown();
            }
        })) {
            check(decided.await(TIMEOUT_MS, TimeUnit.MILLISECONDS), "no result of SASL");
            if (expected.equals("refused")) {
                check(state.get() == KeeperState.AuthFailed, "state " + state.get());
            } else {
                check(state.get() == KeeperState.SaslAuthenticated, "state " + state.get());
                useIdentity(client, path, expected);
            }
        }
        System.out.println("ok");
        System.exit(0);
    }

    private static void useIdentity(ZooKeeper client, String path, String expected) throws Exception {
        byte[] data = "x".getBytes(StandardCharsets.UTF_8);
        client.create(path, data, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        List<ACL> acl = client.getACL(path, null);
        check(acl.size() == 1, "ACL " + acl);
        check(acl.get(0).getId().getScheme().equals("sasl"), "ACL " + acl);
        check(acl.get(0).getId().getId().equals(expected), "ACL " + acl);
        client.setData(path, data, 0);
        client.getData(path, false, null);
        boolean isKnown = false;
        for (ClientInfo info : client.whoAmI()) {
            isKnown |= info.getAuthScheme().equals("sasl") && info.getUser().equals(expected);
        }
        check(isKnown, "whoAmI " + client.whoAmI());
        try {
            client.getData(path + "-of-another-user", false, null);
        } catch (KeeperException.NoAuthException | KeeperException.NoNodeException expectedFailure) {
            return;
        }
        throw new AssertionError("the node of another user is readable");
    }

    private static void check(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }
}
