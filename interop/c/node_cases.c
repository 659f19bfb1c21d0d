/* Cases of nodes of all kinds, transactions and access control. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void create_and_stat(void) {
    char created[PATH_MAX_BYTES];
    struct Stat stat;
    RETURNS(ZOK, zoo_create2(zk, below("a"), "one", 3, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, created, sizeof created, &stat));
    EQUAL_TEXT(below("a"), created);
    CHECK(stat.version == 0 && stat.dataLength == 3 && stat.czxid == stat.mzxid && stat.czxid == stat.pzxid);
    struct Stat changed;
    RETURNS(ZOK, zoo_set2(zk, created, "three", 5, 0, &changed));
    CHECK(changed.version == 1 && changed.czxid == stat.czxid && stat.mzxid < changed.mzxid);
    make_node("a/b", "");
    char data[16];
    int length = sizeof data;
    RETURNS(ZOK, zoo_get(zk, created, 0, data, &length, &stat));
    CHECK(length == 5 && memcmp(data, "three", 5) == 0);
    CHECK(stat.cversion == 1 && stat.numChildren == 1);
    RETURNS(ZOK, zoo_delete(zk, below("a/b"), 0));
    RETURNS(ZOK, zoo_exists(zk, created, 0, &stat));
    CHECK(stat.cversion == 2 && stat.numChildren == 0);
    RETURNS(ZOK, zoo_delete(zk, created, -1));
    RETURNS(ZNONODE, zoo_exists(zk, created, 0, &stat));
}

static void errors(void) {
    char data[8];
    int length = sizeof data;
    const char *path = make_node("a", "");
    RETURNS(ZNODEEXISTS, zoo_create(zk, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    RETURNS(ZNONODE, zoo_create(zk, below("x/y"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    RETURNS(ZNONODE, zoo_get(zk, below("x"), 0, data, &length, NULL));
    RETURNS(ZNONODE, zoo_set(zk, below("x"), "", 0, -1));
    RETURNS(ZNONODE, zoo_delete(zk, below("x"), -1));
    RETURNS(ZBADVERSION, zoo_set(zk, path, "", 0, 7));
    RETURNS(ZBADVERSION, zoo_delete(zk, path, 7));
    make_node("a/b", "");
    RETURNS(ZNOTEMPTY, zoo_delete(zk, below("a"), -1));
    RETURNS(ZOK, zoo_create(zk, below("e"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    RETURNS(ZNOCHILDRENFOREPHEMERALS, zoo_create(zk, below("e/x"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    struct ACL_vector empty = {0, NULL};
    RETURNS(ZINVALIDACL, zoo_create(zk, below("f"), "", 0, &empty, ZOO_PERSISTENT, NULL, 0));
}

static void null_and_empty(void) {
    struct Stat stat;
    char data[8];
    RETURNS(ZOK, zoo_create(zk, below("null"), NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    int length = sizeof data;
    RETURNS(ZOK, zoo_get(zk, below("null"), 0, data, &length, &stat));
    CHECK(length == -1);
    make_node("empty", "");
    length = sizeof data;
    RETURNS(ZOK, zoo_get(zk, below("empty"), 0, data, &length, &stat));
    CHECK(length == 0);
}

static void sequence_and_ephemeral(void) {
    struct events events;
    zhandle_t *owner = open_client(server, TIMEOUT_MS, NULL, &events);
    char first[PATH_MAX_BYTES], second[PATH_MAX_BYTES];
    RETURNS(ZOK, zoo_create(owner, below("n-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, first, sizeof first));
    EQUAL_TEXT(below("n-0000000000"), first);
    RETURNS(ZOK, zoo_create(owner, below("n-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, second, sizeof second));
    EQUAL_TEXT(below("n-0000000001"), second);
    struct Stat stat;
    RETURNS(ZOK, zoo_exists(zk, second, 0, &stat));
    CHECK(stat.ephemeralOwner == zoo_client_id(owner)->client_id);
    close_client(owner);
    RETURNS(ZNONODE, zoo_exists(zk, second, 0, &stat));
    RETURNS(ZOK, zoo_exists(zk, first, 0, &stat));
}

static void container_and_ttl(void) {
    struct Stat stat;
    char path[PATH_MAX_BYTES];
    RETURNS(ZOK, zoo_create2(zk, below("c"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, path, sizeof path, &stat));
    make_node("c/x", "");
    RETURNS(ZOK, zoo_delete(zk, below("c/x"), -1));
    EVENTUALLY(zoo_exists(zk, below("c"), 0, &stat) == ZNONODE);
    RETURNS(ZOK, zoo_create2_ttl(zk, below("t"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 300, path, sizeof path, &stat));
    RETURNS(ZOK, zoo_create_ttl(zk, below("s-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 600000, path, sizeof path));
    EVENTUALLY(zoo_exists(zk, below("t"), 0, &stat) == ZNONODE);
    RETURNS(ZOK, zoo_exists(zk, path, 0, &stat));
}

static void children(void) {
    make_node("x", "");
    make_node("y", "");
    struct String_vector names;
    struct Stat stat;
    RETURNS(ZOK, zoo_get_children2(zk, root(), 0, &names, &stat));
    CHECK(names.count == 2 && stat.numChildren == 2 && stat.cversion == 2);
    CHECK(strcmp(names.data[0], names.data[1]) != 0);
    deallocate_String_vector(&names);
    RETURNS(ZOK, zoo_get_children(zk, below("x"), 0, &names));
    CHECK(names.count == 0);
    deallocate_String_vector(&names);
}

static void large_data(void) {
    int size = 1000 * 1000, length = size;
    char *data = malloc((size_t)size), *back = malloc((size_t)size);
    for (int i = 0; i < size; i++) data[i] = (char)(i * 31);
    struct Stat stat;
    RETURNS(ZOK, zoo_create(zk, below("a"), data, size, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    RETURNS(ZOK, zoo_get(zk, below("a"), 0, back, &length, &stat));
    CHECK(length == size && memcmp(data, back, (size_t)size) == 0);
    free(data);
    free(back);
}

static void multi(void) {
    make_node("old", "");
    char created[PATH_MAX_BYTES], sequence[PATH_MAX_BYTES];
    struct Stat stat;
    zoo_op_t ops[5];
    zoo_op_result_t results[5];
    zoo_check_op_init(&ops[0], below("old"), 0);
    zoo_create_op_init(&ops[1], below("a"), "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, created, sizeof created);
    zoo_create_op_init(&ops[2], below("a/s-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, sequence, sizeof sequence);
    zoo_set_op_init(&ops[3], below("a"), "y", 1, 0, &stat);
    zoo_delete_op_init(&ops[4], below("old"), -1);
    RETURNS(ZOK, zoo_multi(zk, 5, ops, results));
    for (int i = 0; i < 5; i++) RETURNS(ZOK, results[i].err);
    EQUAL_TEXT(below("a"), created);
    EQUAL_TEXT(below("a/s-0000000000"), sequence);
    CHECK(stat.version == 1);
    RETURNS(ZNONODE, zoo_exists(zk, below("old"), 0, &stat));
}

static void failing_multi(void) {
    make_node("existing", "");
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    struct Stat stat;
    zoo_create_op_init(&ops[0], below("a"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_create_op_init(&ops[1], below("existing"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_delete_op_init(&ops[2], below("existing"), -1);
    RETURNS(ZNODEEXISTS, zoo_multi(zk, 3, ops, results));
    RETURNS(ZOK, results[0].err);
    RETURNS(ZNODEEXISTS, results[1].err);
    RETURNS(ZRUNTIMEINCONSISTENCY, results[2].err);
    RETURNS(ZNONODE, zoo_exists(zk, below("a"), 0, &stat));
    RETURNS(ZOK, zoo_exists(zk, below("existing"), 0, &stat));
}

/* Counts completions, and those among them that arrived in order with code 0. */
struct completions {
    pthread_mutex_t lock;
    int done;
    int in_order;
};

static void count_set(int rc, const struct Stat *stat, const void *data) {
    struct completions *completions = (struct completions *)data;
    pthread_mutex_lock(&completions->lock);
    if (rc == ZOK && stat->version == completions->done + 1) completions->in_order++;
    completions->done++;
    pthread_mutex_unlock(&completions->lock);
}

static void count_string(int rc, const char *value, const void *data) {
    struct completions *completions = (struct completions *)data;
    pthread_mutex_lock(&completions->lock);
    if (rc == ZOK && value != NULL) completions->in_order++;
    completions->done++;
    pthread_mutex_unlock(&completions->lock);
}

static void async_calls(void) {
    enum { ROUNDS = 500 };
    struct completions sets = {.lock = PTHREAD_MUTEX_INITIALIZER}, creates = {.lock = PTHREAD_MUTEX_INITIALIZER};
    make_node("a", "");
    for (int i = 0; i < ROUNDS; i++) {
        RETURNS(ZOK, zoo_aset(zk, below("a"), "x", 1, i, count_set, &sets));
        RETURNS(ZOK, zoo_acreate(zk, below("n-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, count_string, &creates));
    }
    EVENTUALLY(sets.done == ROUNDS && creates.done == ROUNDS);
    CHECK(sets.in_order == ROUNDS && creates.in_order == ROUNDS);
    struct completions synced = {.lock = PTHREAD_MUTEX_INITIALIZER};
    RETURNS(ZOK, zoo_async(zk, root(), count_string, &synced));
    EVENTUALLY(synced.done == 1);
    CHECK(synced.in_order == 1);
}

static int auth_code = 1;

static void keep_auth_code(int rc, const void *data) {
    (void)data;
    auth_code = rc;
}

static void acl(void) {
    struct events events, more;
    zhandle_t *bob = open_client(server, TIMEOUT_MS, NULL, &events);
    auth_code = 1;
    RETURNS(ZOK, zoo_add_auth(bob, "digest", "bob:pw", 6, keep_auth_code, NULL));
    EVENTUALLY(auth_code != 1);
    RETURNS(ZOK, auth_code);
    RETURNS(ZOK, zoo_create(bob, below("a"), "secret", 6, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0));
    struct ACL_vector acls;
    struct Stat stat;
    RETURNS(ZOK, zoo_get_acl(bob, below("a"), &acls, &stat));
    CHECK(acls.count == 1 && acls.data[0].perms == ZOO_PERM_ALL);
    EQUAL_TEXT("digest", acls.data[0].id.scheme);
    EQUAL_TEXT("bob:ikIaKsbtGweaHnb/jKn7OHqbunM=", acls.data[0].id.id);
    deallocate_ACL_vector(&acls);
    zhandle_t *anonymous = open_client(server, TIMEOUT_MS, NULL, &more);
    char data[16];
    int length = sizeof data;
    RETURNS(ZNOAUTH, zoo_get(anonymous, below("a"), 0, data, &length, &stat));
    RETURNS(ZNOAUTH, zoo_set(anonymous, below("a"), "", 0, -1));
    RETURNS(ZINVALIDACL, zoo_create(anonymous, below("b"), "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0));
    RETURNS(ZOK, zoo_set_acl(bob, below("a"), 0, &ZOO_READ_ACL_UNSAFE));
    length = sizeof data;
    RETURNS(ZOK, zoo_get(anonymous, below("a"), 0, data, &length, &stat));
    CHECK(stat.aversion == 1 && stat.version == 0);
    RETURNS(ZNOAUTH, zoo_set(bob, below("a"), "", 0, -1));
    RETURNS(ZOK, zoo_set(zk, below("a"), "by super", 8, -1));
}

static void config(void) {
    char data[1024];
    int length = sizeof data;
    struct Stat stat;
    RETURNS(ZOK, zoo_getconfig(zk, 0, data, &length, &stat));
    struct events events;
    zhandle_t *anonymous = open_client(server, TIMEOUT_MS, NULL, &events);
    length = sizeof data;
    RETURNS(ZRECONFIGDISABLED, zoo_reconfig(anonymous, "server.9=localhost:1:2", NULL, NULL, -1, data, &length, &stat));
}

void node_cases(void) {
    run_case("create_and_stat", create_and_stat);
    run_case("errors", errors);
    run_case("null_and_empty", null_and_empty);
    run_case("sequence_and_ephemeral", sequence_and_ephemeral);
    run_case("container_and_ttl", container_and_ttl);
    run_case("children", children);
    run_case("large_data", large_data);
    run_case("multi", multi);
    run_case("failing_multi", failing_multi);
    run_case("async_calls", async_calls);
    run_case("acl", acl);
    run_case("config", config);
}
