package oxkeeper.interop;

/** Runs all cases on one server: {@code Main server proxy control [part of a case name]}. */
public final class Main {
    private Main() {}

    public static void main(String[] args) {
        if (args.length < 3) {
            System.err.println("usage: Main server proxy control [part of a case name]");
            System.exit(2);
        }
        Fixture fixture = new Fixture(args[0], args[1], args[2]);
        Suite suite = new Suite(fixture, 3 < args.length ? args[3] : "");
        NodeCases.addTo(suite);
        MultiCases.addTo(suite);
        WatchCases.addTo(suite);
        AclCases.addTo(suite);
        SessionCases.addTo(suite);
        LockRecipes.addTo(suite);
        QueueRecipes.addTo(suite);
        CacheRecipes.addTo(suite);
        CuratorCases.addTo(suite);
        // Exit even if client threads of a failed case are still running.
        System.exit(suite.finish());
    }
}
