/* Cases of watches without connection loss. */
#include "suite.h"

#include <string.h>

static void one_shot(void) {
    struct events exists, data, child;
    events_init(&exists);
    events_init(&data);
    events_init(&child);
    struct Stat stat;
    char buffer[8];
    int length = sizeof buffer;
    struct String_vector names;
    const char *path = make_node("a", "");
    RETURNS(ZOK, zoo_wexists(zk, path, record_event, &exists, &stat));
    RETURNS(ZOK, zoo_wget(zk, path, record_event, &data, buffer, &length, &stat));
    RETURNS(ZOK, zoo_wget_children(zk, path, record_event, &child, &names));
    deallocate_String_vector(&names);
    RETURNS(ZOK, zoo_set(zk, path, "x", 1, -1));
    expect_event(&exists, ZOO_CHANGED_EVENT, below("a"));
    expect_event(&data, ZOO_CHANGED_EVENT, below("a"));
    make_node("a/b", "");
    expect_event(&child, ZOO_CHILD_EVENT, below("a"));
    RETURNS(ZOK, zoo_set(zk, below("a"), "y", 1, -1));
    expect_none(&exists);
    expect_none(&data);
}

static void created_and_deleted(void) {
    struct events exists, data, child, parent;
    events_init(&exists);
    events_init(&data);
    events_init(&child);
    events_init(&parent);
    struct Stat stat;
    char buffer[8];
    int length = sizeof buffer;
    struct String_vector names;
    RETURNS(ZNONODE, zoo_wexists(zk, below("a"), record_event, &exists, &stat));
    make_node("a", "");
    expect_event(&exists, ZOO_CREATED_EVENT, below("a"));
    RETURNS(ZOK, zoo_wget(zk, below("a"), record_event, &data, buffer, &length, &stat));
    RETURNS(ZOK, zoo_wget_children2(zk, below("a"), record_event, &child, &names, &stat));
    deallocate_String_vector(&names);
    RETURNS(ZOK, zoo_wget_children(zk, root(), record_event, &parent, &names));
    deallocate_String_vector(&names);
    RETURNS(ZOK, zoo_delete(zk, below("a"), -1));
    expect_event(&data, ZOO_DELETED_EVENT, below("a"));
    expect_event(&child, ZOO_DELETED_EVENT, below("a"));
    expect_event(&parent, ZOO_CHILD_EVENT, root());
}

static void removed(void) {
    struct events first, second;
    events_init(&first);
    events_init(&second);
    struct Stat stat;
    struct String_vector names;
    make_node("a", "");
    RETURNS(ZOK, zoo_wexists(zk, below("a"), record_event, &first, &stat));
    RETURNS(ZOK, zoo_wget_children(zk, below("a"), record_event, &second, &names));
    deallocate_String_vector(&names);
    RETURNS(ZOK, zoo_remove_watches(zk, below("a"), ZWATCHTYPE_DATA, record_event, &first, 0));
    RETURNS(ZNOWATCHER, zoo_remove_watches(zk, below("a"), ZWATCHTYPE_DATA, record_event, &first, 0));
    RETURNS(ZOK, zoo_set(zk, below("a"), "x", 1, -1));
    RETURNS(ZOK, zoo_remove_all_watches(zk, below("a"), ZWATCHTYPE_ANY, 0));
    make_node("a/b", "");
    expect_none(&first);
    expect_none(&second);
}

void watch_cases(void) {
    run_case("one_shot", one_shot);
    run_case("created_and_deleted", created_and_deleted);
    run_case("removed", removed);
}
