package oxkeeper.interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** Cases of access control and identities. */
final class AclCases {
    private AclCases() {}

    static void addTo(Suite suite) {
        suite.test("acl digest", AclCases::digest);
        suite.test("acl auth", AclCases::auth);
        suite.test("acl ip and world", AclCases::ipAndWorld);
        suite.test("acl permissions", AclCases::permissions);
        suite.test("acl versions and errors", AclCases::versionsAndErrors);
        suite.test("acl in multi", AclCases::multi);
        suite.test("acl hides events", AclCases::hidesEvents);
        suite.test("super user", AclCases::superUser);
        suite.test("who am i", AclCases::whoAmI);
    }

    private static List<ACL> only(int perms, String scheme, String id) {
        return only(new ACL(perms, new Id(scheme, id)));
    }

    /** Not {@code List.of}: the client calls {@code contains(null)}, for which these lists throw an exception. */
    private static List<ACL> only(ACL acl) {
        return Arrays.asList(acl);
    }

    private static ZooKeeper connectAs(Case test, String user) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        zk.addAuthInfo("digest", user.getBytes());
        return zk;
    }

    private static void digest(Case test) throws Exception {
        String id = DigestAuthenticationProvider.generateDigest("bob:pw");
        String path = test.path("a");
        ZooKeeper bob = connectAs(test, "bob:pw");
        bob.create(path, "secret".getBytes(), only(Perms.ALL, "digest", id), CreateMode.PERSISTENT);
        Check.bytes("secret", bob.getData(path, false, null));
        Check.equal(only(Perms.ALL, "digest", id), bob.getACL(path, new Stat()));
        ZooKeeper anonymous = test.connect(new Events());
        Check.fails(Code.NOAUTH, () -> anonymous.getData(path, false, null));
        Check.fails(Code.NOAUTH, () -> anonymous.exists(path, false));
        Check.fails(Code.NOAUTH, () -> anonymous.setData(path, null, -1));
        Check.fails(Code.NOAUTH, () -> anonymous.getACL(path, null));
        ZooKeeper mallory = connectAs(test, "bob:guess");
        Check.fails(Code.NOAUTH, () -> mallory.getData(path, false, null));
        mallory.addAuthInfo("digest", "bob:pw".getBytes());
        Check.bytes("secret", mallory.getData(path, false, null));
        List<ACL> readable = new ArrayList<>(only(Perms.ALL, "digest", id));
        readable.addAll(Ids.READ_ACL_UNSAFE);
        bob.setACL(path, readable, 0);
        // A client without ADMIN permission does not see the hash.
        Check.equal("bob:x", anonymous.getACL(path, null).get(0).getId().getId());
    }

    private static void auth(Case test) throws Exception {
        ZooKeeper carol = connectAs(test, "carol:1");
        String path = carol.create(test.path("a"), null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Check.equal(only(Perms.ALL, "digest", DigestAuthenticationProvider.generateDigest("carol:1")),
                carol.getACL(path, null));
        carol.addAuthInfo("digest", "dave:2".getBytes());
        carol.setACL(path, Ids.CREATOR_ALL_ACL, -1);
        Check.equal(2, carol.getACL(path, null).size());
        ZooKeeper dave = connectAs(test, "dave:2");
        dave.setData(path, null, -1);
        ZooKeeper anonymous = test.connect(new Events());
        Check.fails(Code.INVALIDACL,
                () -> anonymous.create(test.path("b"), null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
    }

    private static void ipAndWorld(Case test) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        zk.create(test.path("here"), null, only(Perms.ALL, "ip", "127.0.0.1"), CreateMode.PERSISTENT);
        zk.create(test.path("net"), null, only(Perms.ALL, "ip", "127.0.0.0/8"), CreateMode.PERSISTENT);
        zk.create(test.path("there"), null, only(Perms.ALL, "ip", "10.1.2.3"), CreateMode.PERSISTENT);
        zk.create(test.path("read"), null, Ids.READ_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.setData(test.path("here"), null, -1);
        zk.setData(test.path("net"), null, -1);
        Check.fails(Code.NOAUTH, () -> zk.getData(test.path("there"), false, null));
        zk.getData(test.path("read"), false, null);
        Check.fails(Code.NOAUTH, () -> zk.setData(test.path("read"), null, -1));
    }

    private static void permissions(Case test) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        zk.create(test.path("no-create"), null, only(Perms.ALL & ~Perms.CREATE, "world", "anyone"), CreateMode.PERSISTENT);
        Check.fails(Code.NOAUTH, () -> zk.create(test.path("no-create/x"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        zk.create(test.path("no-delete"), null, only(Perms.ALL & ~Perms.DELETE, "world", "anyone"), CreateMode.PERSISTENT);
        zk.create(test.path("no-delete/x"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.fails(Code.NOAUTH, () -> zk.delete(test.path("no-delete/x"), -1));
        // DELETE is checked on the parent; the ACL of the node itself is irrelevant.
        zk.delete(test.path("no-create"), -1);
        zk.create(test.path("no-admin"), null, only(Perms.READ | Perms.WRITE, "world", "anyone"), CreateMode.PERSISTENT);
        zk.setData(test.path("no-admin"), null, -1);
        Check.fails(Code.NOAUTH, () -> zk.setACL(test.path("no-admin"), Ids.OPEN_ACL_UNSAFE, -1));
        zk.create(test.path("no-read"), null, only(Perms.WRITE, "world", "anyone"), CreateMode.PERSISTENT);
        Check.fails(Code.NOAUTH, () -> zk.getChildren(test.path("no-read"), false));
        Check.fails(Code.NOAUTH, () -> zk.getAllChildrenNumber(test.path("no-read")));
    }

    private static void versionsAndErrors(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        String path = test.node("a", "");
        Check.equal(1, zk.setACL(path, Ids.OPEN_ACL_UNSAFE, 0).getAversion());
        Check.fails(Code.BADVERSION, () -> zk.setACL(path, Ids.OPEN_ACL_UNSAFE, 0));
        Check.equal(2, zk.setACL(path, Ids.READ_ACL_UNSAFE, 1).getAversion());
        Check.equal(0, zk.exists(path, false).getVersion());
        Check.fails(Code.NONODE, () -> zk.setACL(test.path("missing"), Ids.OPEN_ACL_UNSAFE, -1));
        for (ACL bad : List.of(
                new ACL(Perms.ALL, new Id("world", "someone")),
                new ACL(Perms.ALL, new Id("digest", "no-colon")),
                new ACL(Perms.ALL, new Id("ip", "300.1.1.1")),
                new ACL(Perms.ALL, new Id("nonsense", "x")),
                new ACL(Perms.ALL, new Id("super", "")))) {
            Check.fails(Code.INVALIDACL, () -> zk.create(test.path("b"), null, only(bad), CreateMode.PERSISTENT));
        }
    }

    private static void multi(Case test) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        zk.create(test.path("locked"), null, Ids.READ_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.fails(Code.NOAUTH, () -> zk.multi(List.of(
                Op.create(test.path("free"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.setData(test.path("locked"), null, -1))));
        Check.equal(null, zk.exists(test.path("free"), false));
    }

    private static void hidesEvents(Case test) throws Exception {
        ZooKeeper bob = connectAs(test, "bob:pw");
        ZooKeeper anonymous = test.connect(new Events());
        Events events = new Events();
        anonymous.addWatch(test.root, events, AddWatchMode.PERSISTENT_RECURSIVE);
        bob.create(test.path("hidden"), null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        bob.setData(test.path("hidden"), null, -1);
        test.node("open", "");
        events.expect(EventType.NodeCreated, test.path("open"));
    }

    private static void superUser(Case test) throws Exception {
        ZooKeeper bob = connectAs(test, "bob:pw");
        String path = bob.create(test.path("a"), "x".getBytes(), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        ZooKeeper root = connectAs(test, "super:test");
        Check.bytes("x", root.getData(path, false, null));
        root.setACL(path, Ids.OPEN_ACL_UNSAFE, -1);
        ZooKeeper fake = connectAs(test, "super:wrong");
        bob.setACL(path, Ids.CREATOR_ALL_ACL, -1);
        Check.fails(Code.NOAUTH, () -> fake.getData(path, false, null));
    }

    private static void whoAmI(Case test) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        Check.sameSet(List.of("ip 127.0.0.1"), identities(zk));
        zk.addAuthInfo("digest", "bob:pw".getBytes());
        Check.sameSet(List.of("ip 127.0.0.1", "digest bob"), identities(zk));
    }

    private static List<String> identities(ZooKeeper zk) throws Exception {
        List<String> names = new ArrayList<>();
        for (ClientInfo info : zk.whoAmI()) {
            names.add(info.getAuthScheme() + " " + info.getUser());
        }
        return names;
    }
}
