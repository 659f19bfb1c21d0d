/* Cases of cli_mt, the shell of the C client. The environment variable CLI_MT contains its path. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[16384];

/* Runs a shell command and stores its output in `output`. */
static void shell(const char *format, const char *path) {
    char command[PATH_MAX_BYTES * 3], line[PATH_MAX_BYTES * 4];
    snprintf(command, sizeof command, format, path);
    snprintf(line, sizeof line, "%s -h %s -c '%s' 2>&1 </dev/null", getenv("CLI_MT"), server, command);
    FILE *pipe = popen(line, "r");
    CHECK(pipe != NULL);
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    pclose(pipe);
}

static void commands(void) {
    const char *program = getenv("CLI_MT");
    if (program == NULL || access(program, X_OK) != 0) skip("cli_mt is not installed");
    char data[16];
    int length = sizeof data;
    struct Stat stat;
    shell("create %s", below("a"));
    RETURNS(ZOK, zoo_get(zk, below("a"), 0, data, &length, &stat));
    shell("create2 +s %s", below("s-"));
    RETURNS(ZOK, zoo_exists(zk, below("s-0000000001"), 0, &stat));
    shell("set %s other", below("a"));
    length = sizeof data;
    RETURNS(ZOK, zoo_get(zk, below("a"), 0, data, &length, &stat));
    CHECK(length == 5 && memcmp(data, "other", 5) == 0);
    shell("get %s", below("a"));
    CHECK(strstr(output, "other") != NULL);
    shell("ls %s", root());
    CHECK(strstr(output, "s-0000000001") != NULL);
    shell("ls2 %s", root());
    CHECK(strstr(output, "ephemeralOwner = 0") != NULL);
    shell("delete %s", below("a"));
    RETURNS(ZNONODE, zoo_exists(zk, below("a"), 0, &stat));
}

void shell_cases(void) {
    run_case("shell", commands);
}
