/* emulated_init.c — the first process of the emulated machine that scripts/emulate.sh starts: runs
 * the commands of /commands one after the other, says how each ended, and switches the machine off.
 *
 * Lines that begin with "EMULATED" are what the script reads on the other side of the serial line.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 16 };

/* 0 to 255, or 256 and the signal that ended it. */
static int run(char *line)
{
    char *args[MAX_ARGS + 1];
    int n = 0;
    for (char *arg = strtok(line, " \n"); arg && n < MAX_ARGS; arg = strtok(NULL, " \n")) {
        args[n++] = arg;
    }
    args[n] = NULL;
    const pid_t child = fork();
    if (child == 0) {
        (void)execv(args[0], args);
        perror(args[0]);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return 256;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Bochs ends when this word is written to this port. */
static void switch_off(void)
{
    if (ioperm(0x8900, 1, 1) == 0) {
        for (const char *c = "Shutdown"; *c; c++) {
            outb((unsigned char)*c, 0x8900);
        }
    }
    for (;;) {
        (void)pause();
    }
}

int main(void)
{
    (void)mount("none", "/dev", "devtmpfs", 0, NULL);
    (void)mount("none", "/proc", "proc", 0, NULL);
    (void)mount("none", "/tmp", "tmpfs", 0, NULL);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int n_failed = 0;
    int n_run = 0;
    char line[1024];
    FILE *commands = fopen("/commands", "r");
    while (commands && fgets(line, sizeof line, commands)) {
        printf("EMULATED run %s", line);
        const int status = run(line);
        printf("EMULATED status %d\n", status);
        n_failed += status != 0;
        n_run++;
    }
    printf("EMULATED end: %d run, %d failed\n", n_run, n_failed);
    (void)fflush(stdout);
    (void)sleep(1); /* until the serial line is empty */
    switch_off();
}
