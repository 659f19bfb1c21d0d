/* Cases of sessions during lost connections, expiry and server restarts. */
#include "suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void make_ephemeral(zhandle_t *owner) {
    RETURNS(ZOK, zoo_create(owner, below("e"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
}

static void reattach(void) {
    struct events first_events, second_events;
    zhandle_t *first = open_client(proxy, TIMEOUT_MS, NULL, &first_events);
    make_ephemeral(first);
    clientid_t id = *zoo_client_id(first);
    command("block");
    zhandle_t *second = open_client(server, TIMEOUT_MS, &id, &second_events);
    CHECK(zoo_client_id(second)->client_id == id.client_id);
    struct Stat stat;
    RETURNS(ZOK, zoo_exists(second, below("e"), 0, &stat));
    CHECK(stat.ephemeralOwner == id.client_id);
    RETURNS(ZOK, zoo_delete(second, below("e"), -1));
}

static void reconnect(void) {
    struct events events, changed, created, child, quiet;
    events_init(&changed);
    events_init(&created);
    events_init(&child);
    events_init(&quiet);
    zhandle_t *client = open_client(proxy, TIMEOUT_MS, NULL, &events);
    int64_t session = zoo_client_id(client)->client_id;
    struct Stat stat;
    char buffer[8];
    int length = sizeof buffer;
    struct String_vector names;
    make_node("changed", "");
    make_node("parent", "");
    make_node("quiet", "");
    make_ephemeral(client);
    RETURNS(ZOK, zoo_wget(client, below("changed"), record_event, &changed, buffer, &length, &stat));
    RETURNS(ZNONODE, zoo_wexists(client, below("created"), record_event, &created, &stat));
    RETURNS(ZOK, zoo_wget_children(client, below("parent"), record_event, &child, &names));
    deallocate_String_vector(&names);
    length = sizeof buffer;
    RETURNS(ZOK, zoo_wget(client, below("quiet"), record_event, &quiet, buffer, &length, &stat));
    command("block");
    await_state(&events, ZOO_CONNECTING_STATE);
    RETURNS(ZOK, zoo_set(zk, below("changed"), "x", 1, -1));
    make_node("created", "");
    make_node("parent/x", "");
    command("open");
    await_state(&events, ZOO_CONNECTED_STATE);
    CHECK(zoo_client_id(client)->client_id == session);
    expect_event(&changed, ZOO_CHANGED_EVENT, below("changed"));
    expect_event(&created, ZOO_CREATED_EVENT, below("created"));
    expect_event(&child, ZOO_CHILD_EVENT, below("parent"));
    RETURNS(ZOK, zoo_exists(client, below("e"), 0, &stat));
    RETURNS(ZOK, zoo_set(zk, below("quiet"), "x", 1, -1));
    expect_event(&quiet, ZOO_CHANGED_EVENT, below("quiet"));
}

static void ignore(int rc, const void *data) {
    (void)rc;
    (void)data;
}

static void reconnect_authenticates(void) {
    struct events events;
    zhandle_t *bob = open_client(proxy, TIMEOUT_MS, NULL, &events);
    RETURNS(ZOK, zoo_add_auth(bob, "digest", "bob:pw", 6, ignore, NULL));
    RETURNS(ZOK, zoo_create(bob, below("a"), "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0));
    command("drop");
    await_state(&events, ZOO_CONNECTING_STATE);
    await_state(&events, ZOO_CONNECTED_STATE);
    struct Stat stat;
    RETURNS(ZOK, zoo_exists(bob, below("a"), 0, &stat));
}

static void expiry(void) {
    struct events events, deleted;
    events_init(&deleted);
    zhandle_t *client = open_client(proxy, SHORT_TIMEOUT_MS, NULL, &events);
    struct Stat stat;
    make_ephemeral(client);
    RETURNS(ZOK, zoo_wexists(zk, below("e"), record_event, &deleted, &stat));
    command("block");
    expect_event(&deleted, ZOO_DELETED_EVENT, below("e"));
    command("open");
    await_state(&events, ZOO_EXPIRED_SESSION_STATE);
    RETURNS(ZINVALIDSTATE, zoo_exists(client, root(), 0, &stat));
}

static void idle(void) {
    struct events events;
    zhandle_t *client = open_client(proxy, 1000, NULL, &events);
    struct Stat stat;
    make_ephemeral(client);
    usleep(2500000);
    RETURNS(ZOK, zoo_exists(zk, below("e"), 0, &stat));
    CHECK(zoo_state(client) == ZOO_CONNECTED_STATE);
}

static void server_restart(void) {
    struct events events, changed;
    events_init(&changed);
    zhandle_t *client = open_client(proxy, TIMEOUT_MS, NULL, &events);
    int64_t session = zoo_client_id(client)->client_id;
    struct Stat stat;
    make_ephemeral(client);
    make_node("a", "");
    RETURNS(ZOK, zoo_wexists(client, below("a"), record_event, &changed, &stat));
    if (!command("restart")) skip("xtask did not start the server");
    await_state(&events, ZOO_CONNECTING_STATE);
    await_state(&events, ZOO_CONNECTED_STATE);
    CHECK(zoo_client_id(client)->client_id == session);
    RETURNS(ZOK, zoo_exists(client, below("e"), 0, &stat));
    RETURNS(ZOK, zoo_set(client, below("a"), "x", 1, 0));
    expect_event(&changed, ZOO_CHANGED_EVENT, below("a"));
    EVENTUALLY(zoo_state(zk) == ZOO_CONNECTED_STATE);
}

void session_cases(void) {
    run_case("reattach", reattach);
    run_case("reconnect", reconnect);
    run_case("reconnect_authenticates", reconnect_authenticates);
    run_case("expiry", expiry);
    run_case("idle", idle);
    run_case("server_restart", server_restart);
}
