/* What the cases of the C suite share: runner, checks, connections, events. */
#ifndef SUITE_H
#define SUITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <zookeeper.h>

enum { PATH_MAX_BYTES = 256, EVENTS_MAX = 64, TIMEOUT_MS = 10000, SHORT_TIMEOUT_MS = 2000, WAIT_S = 10 };

/* The addresses the program was started with. */
extern const char *server;
extern const char *proxy;
extern const char *control;

/* Runs one case; prints its line. */
void run_case(const char *name, void (*body)(void));

/* Ends the running case as failed, or as one that this server cannot run. Main thread only. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void skip(const char *why) __attribute__((noreturn));

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) fail("%s:%d: expected %s", __FILE__, __LINE__, #condition);                                  \
    } while (0)

/* The call returns this code of ZooKeeper's. */
#define RETURNS(code, call)                                                                                            \
    do {                                                                                                               \
        int got_ = (call);                                                                                             \
        if (got_ != (code)) fail("%s:%d: %s: expected %d, got %d", __FILE__, __LINE__, #call, (code), got_);           \
    } while (0)

#define EQUAL_TEXT(expected, actual) check_text(__FILE__, __LINE__, expected, actual)
void check_text(const char *file, int line, const char *expected, const char *actual);

/* Events that watches and sessions have delivered, in order. */
struct event {
    int type;
    int state;
    char path[PATH_MAX_BYTES];
};

struct events {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct event list[EVENTS_MAX];
    int count;
    int taken;
};

void events_init(struct events *events);
/* A watcher_fn whose context is a struct events. */
void record_event(zhandle_t *zh, int type, int state, const char *path, void *context);
/* The next event has this type and path. */
void expect_event(struct events *events, int type, const char *path);
/* No event comes soon. */
void expect_none(struct events *events);
/* Skips session events until the state is reached. */
void await_state(struct events *events, int state);

/* The case's own client, straight to the server and super user, and its own node. */
extern zhandle_t *zk;
/* Path below the case's own node; valid until eight more have been made. */
const char *below(const char *rest);
const char *root(void);
/* Creates a persistent, open node below the case's own one. */
const char *make_node(const char *rest, const char *data);

/* A connected client that is closed with the case. */
zhandle_t *open_client(const char *address, int timeout_ms, const clientid_t *id, struct events *events);
void close_client(zhandle_t *client);

/* Sends a control command and waits for its effect; false where the server is not ours. */
bool command(const char *word);

/* A condition holds within WAIT_S seconds. */
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
