/* signals.c — Ctrl-C, inputs that are cut short while mapped, limits of file sizes. */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cli/cli.h"

static atomic_int interrupted;
static const char *_Atomic guarded_path;

bool cli_is_interrupted(void)
{
    return atomic_load_explicit(&interrupted, memory_order_relaxed) != 0;
}

void cli_guard_input(const char *path)
{
    atomic_store(&guarded_path, path);
}

/* The first one asks the job to stop and clean up; the second one ends the program at once. */
static void on_interrupt(int number)
{
    atomic_store_explicit(&interrupted, number, memory_order_relaxed);
}

static void write_all(const char *text)
{
    size_t n_left = strlen(text);

    while (n_left > 0) {
        const ssize_t n = write(STDERR_FILENO, text, n_left);
        if (n <= 0) {
            return;
        }
        text += n;
        n_left -= (size_t)n;
    }
}

/* A mapped header that is cut short under us cannot be read on: say so and end. */
static void on_bus_error(int number)
{
    const char *path = atomic_load(&guarded_path);

    (void)number;
    write_all("quench: ");
    if (path != NULL) {
        write_all(path);
        write_all(": ");
    }
    write_all("the file was cut short while it was being read; try again when nothing writes to "
              "it\n");
    _exit(CLI_FAILED);
}

static void catch_signal(int number, void (*handler)(int), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* nohup has it ignored, and means that. */
static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void cli_catch_signals(void)
{
    catch_signal(SIGINT, on_interrupt, (int)SA_RESETHAND);
    catch_signal(SIGTERM, on_interrupt, (int)SA_RESETHAND);
    if (!is_ignored(SIGHUP)) {
        catch_signal(SIGHUP, on_interrupt, (int)SA_RESETHAND);
    }
    catch_signal(SIGBUS, on_bus_error, 0);
    catch_signal(SIGXFSZ, SIG_IGN, 0); /* a write past the limit of file sizes fails and is told */
}
