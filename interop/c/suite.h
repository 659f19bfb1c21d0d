/* Shared by the cases of the C suite: runner, checks, connections, events. */
#ifndef SUITE_H
#define SUITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <zookeeper.h>

enum { PATH_MAX_BYTES = 256, EVENTS_MAX = 64, TIMEOUT_MS = 10000, SHORT_TIMEOUT_MS = 2000, WAIT_S = 10 };

/* The addresses from the command line. */
extern const char *server;
extern const char *proxy;
extern const char *control;

/* Runs a case and prints its result. */
void run_case(const char *name, void (*body)(void));

/* End the running case as failed, or as one that cannot run on this server. Main thread only. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void skip(const char *why) __attribute__((noreturn));

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) fail("%s:%d: expected %s", __FILE__, __LINE__, #condition);                                  \
    } while (0)

/* Checks the return code of a client function. */
#define RETURNS(code, call)                                                                                            \
    do {                                                                                                               \
        int got_ = (call);                                                                                             \
        if (got_ != (code)) fail("%s:%d: %s: expected %d, got %d", __FILE__, __LINE__, #call, (code), got_);           \
    } while (0)

#define EQUAL_TEXT(expected, actual) check_text(__FILE__, __LINE__, expected, actual)
void check_text(const char *file, int line, const char *expected, const char *actual);

/* An event of a watch or of a session. */
struct event {
    int type;
    int state;
    char path[PATH_MAX_BYTES];
};

/* Events in the order of their arrival. */
struct events {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct event list[EVENTS_MAX];
    int count;
    int taken;
};

void events_init(struct events *events);
/* A watcher_fn with a struct events as its context. */
void record_event(zhandle_t *zh, int type, int state, const char *path, void *context);
/* Checks type and path of the next event. */
void expect_event(struct events *events, int type, const char *path);
/* Checks that no event arrives within a short time. */
void expect_none(struct events *events);
/* Skips session events until the state is reached. */
void await_state(struct events *events, int state);

/* The client of the case, without the proxy and authenticated as super. */
extern zhandle_t *zk;
/* A path below the root node of the case. Valid until the eighth call after this one. */
const char *below(const char *rest);
const char *root(void);
/* Creates a persistent node with an open ACL below the root node of the case. */
const char *make_node(const char *rest, const char *data);

/* A connected client, which the end of the case closes. */
zhandle_t *open_client(const char *address, int timeout_ms, const clientid_t *id, struct events *events);
void close_client(zhandle_t *client);

/* Sends a control command and waits for its reply. Returns false if it needs a server that xtask started. */
bool command(const char *name);

/* Waits up to WAIT_S seconds until a condition holds. */
#define EVENTUALLY(condition)                                                                                          \
    do {                                                                                                               \
        int tries_ = 0;                                                                                                \
        while (!(condition)) {                                                                                         \
            if (++tries_ == WAIT_S * 50) fail("%s:%d: expected soon: %s", __FILE__, __LINE__, #condition);             \
            usleep(20000);                                                                                             \
        }                                                                                                              \
    } while (0)

void node_cases(void);
void watch_cases(void);
void session_cases(void);
void shell_cases(void);

#endif
