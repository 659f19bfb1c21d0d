/* Implements suite.h: runner, checks, connections and events. */
#include "suite.h"

#include <netdb.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CASE_TIMEOUT_S = 30, QUIET_MS = 150, CLIENTS_MAX = 8 };

const char *server;
const char *proxy;
const char *control;
zhandle_t *zk;

static int passed, failed, skipped;
static const char *filter = "";
static const char *current;
static char case_root[PATH_MAX_BYTES];
static char message[1024];
static jmp_buf case_end;
static zhandle_t *clients[CLIENTS_MAX];

enum { RAN, FAILED, SKIPPED };

static void finish(void) {
    printf("c: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
    fflush(stdout);
    /* Not exit(): client threads of a failed case may still run. */
    _exit(failed == 0 ? 0 : 1);
}

/* A call that hangs cannot be interrupted, so the suite ends. */
static void on_alarm(int signal_number) {
    (void)signal_number;
    printf("fail %s did not finish within %d s\n", current, CASE_TIMEOUT_S);
    failed++;
    finish();
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    longjmp(case_end, FAILED);
}

void skip(const char *why) {
    snprintf(message, sizeof message, "%s", why);
    longjmp(case_end, SKIPPED);
}

void check_text(const char *file, int line, const char *expected, const char *actual) {
    if (strcmp(expected, actual) != 0) fail("%s:%d: expected \"%s\", got \"%s\"", file, line, expected, actual);
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void delete_tree(const char *path) {
    struct String_vector names;
    if (zoo_get_children(zk, path, 0, &names) != ZOK) return;
    for (int i = 0; i < names.count; i++) {
        char child[PATH_MAX_BYTES * 2];
        snprintf(child, sizeof child, "%s/%s", path, names.data[i]);
        delete_tree(child);
    }
    deallocate_String_vector(&names);
    zoo_delete(zk, path, -1);
}

static void ignore_auth(int rc, const void *data) {
    (void)rc;
    (void)data;
}

static struct events case_events;

static void begin_case(const char *name) {
    snprintf(case_root, sizeof case_root, "/c-%s", name);
    zk = open_client(server, TIMEOUT_MS, NULL, &case_events);
    RETURNS(ZOK, zoo_add_auth(zk, "digest", "super:test", 10, ignore_auth, NULL));
    delete_tree(case_root);
    RETURNS(ZOK, zoo_create(zk, case_root, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
}

static void end_case(void) {
    command("open");
    for (int i = CLIENTS_MAX - 1; 0 <= i; i--) {
        if (clients[i] != NULL) close_client(clients[i]);
    }
}

void run_case(const char *name, void (*body)(void)) {
    if (strstr(name, filter) == NULL) return;
    current = name;
    alarm(CASE_TIMEOUT_S);
    long start = now_ms();
    int outcome = setjmp(case_end);
    if (outcome == RAN) {
        begin_case(name);
        body();
        passed++;
        printf("ok   %s %ld\n", name, now_ms() - start);
    } else if (outcome == SKIPPED) {
        skipped++;
        printf("skip %s %s\n", name, message);
    } else {
        failed++;
        printf("fail %s %s\n", name, message);
    }
    fflush(stdout);
    end_case();
    alarm(0);
}

void events_init(struct events *events) {
    memset(events, 0, sizeof *events);
    pthread_mutex_init(&events->lock, NULL);
    pthread_cond_init(&events->changed, NULL);
}

void record_event(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    struct events *events = context;
    pthread_mutex_lock(&events->lock);
    if (events->count < EVENTS_MAX) {
        struct event *event = &events->list[events->count++];
        event->type = type;
        event->state = state;
        snprintf(event->path, sizeof event->path, "%s", path == NULL ? "" : path);
        pthread_cond_broadcast(&events->changed);
    }
    pthread_mutex_unlock(&events->lock);
}

/* Takes the next session event, or the next other event. Returns false if none arrives within wait_ms. */
static bool take(struct events *events, bool session, int wait_ms, struct event *out) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += wait_ms / 1000;
    deadline.tv_nsec += (wait_ms % 1000) * 1000000L;
    if (1000000000L <= deadline.tv_nsec) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000L;
    }
    bool found = false;
    pthread_mutex_lock(&events->lock);
    while (!found) {
        while (!found && events->taken < events->count) {
            *out = events->list[events->taken++];
            found = (out->type == ZOO_SESSION_EVENT) == session;
        }
        if (!found && pthread_cond_timedwait(&events->changed, &events->lock, &deadline) != 0) break;
    }
    pthread_mutex_unlock(&events->lock);
    return found;
}

void expect_event(struct events *events, int type, const char *path) {
    struct event event;
    if (!take(events, false, WAIT_S * 1000, &event)) fail("no event; expected type %d on %s", type, path);
    if (event.type != type || strcmp(event.path, path) != 0)
        fail("expected event %d on %s, got %d on %s", type, path, event.type, event.path);
}

void expect_none(struct events *events) {
    struct event event;
    if (take(events, false, QUIET_MS, &event)) fail("unexpected event %d on %s", event.type, event.path);
}

void await_state(struct events *events, int state) {
    struct event event;
    do {
        if (!take(events, true, WAIT_S * 1000, &event)) fail("session state %d not reached", state);
    } while (event.state != state);
}

const char *below(const char *rest) {
    static char paths[8][PATH_MAX_BYTES * 2];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", case_root, rest);
    return path;
}

const char *root(void) {
    return case_root;
}

const char *make_node(const char *rest, const char *data) {
    const char *path = below(rest);
    RETURNS(ZOK, zoo_create(zk, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    return path;
}

zhandle_t *open_client(const char *address, int timeout_ms, const clientid_t *id, struct events *events) {
    events_init(events);
    int slot = 0;
    while (slot < CLIENTS_MAX && clients[slot] != NULL) slot++;
    CHECK(slot < CLIENTS_MAX);
    clients[slot] = zookeeper_init(address, record_event, timeout_ms, id, events, 0);
    CHECK(clients[slot] != NULL);
    await_state(events, ZOO_CONNECTED_STATE);
    return clients[slot];
}

void close_client(zhandle_t *client) {
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (clients[i] == client) clients[i] = NULL;
    }
    zookeeper_close(client);
}

bool command(const char *name) {
    char host[64];
    snprintf(host, sizeof host, "%s", control);
    char *port = strrchr(host, ':');
    *port++ = '\0';
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *address;
    if (getaddrinfo(host, port, &hints, &address) != 0) fail("cannot resolve %s", control);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) fail("cannot connect to %s", control);
    freeaddrinfo(address);
    char line[512];
    int length = snprintf(line, sizeof line, "%s\n", name);
    if (write(fd, line, (size_t)length) != length) fail("cannot write to %s", control);
    FILE *replies = fdopen(fd, "r");
    char *reply = fgets(line, sizeof line, replies);
    fclose(replies);
    if (reply == NULL) fail("no reply to %s", name);
    reply[strcspn(reply, "\n")] = '\0';
    if (strcmp(reply, "error: not our server") == 0) return false;
    if (strcmp(reply, "ok") != 0) fail("%s: %s", name, reply);
    return true;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s server proxy control [part of a case name]\n", argv[0]);
        return 2;
    }
    server = argv[1];
    proxy = argv[2];
    control = argv[3];
    if (4 < argc) filter = argv[4];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    signal(SIGALRM, on_alarm);
    node_cases();
    watch_cases();
    session_cases();
    shell_cases();
    finish();
}
