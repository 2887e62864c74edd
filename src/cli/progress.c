/* progress.c — a bar on stderr: on a terminal only, after a delay, with rate and time left. */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define DELAY_SECONDS    0.5 /* shorter jobs draw nothing */
#define INTERVAL_SECONDS 0.1
#define BAR_COLUMNS      30

double cli_clock_seconds(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_progress_begin(cli_progress *progress, const cli_call *call, const char *what)
{
    *progress = (cli_progress){.what = what};
    progress->is_shown = !call->common.quiet && isatty(STDERR_FILENO) == 1;
    progress->start_seconds = cli_clock_seconds();
}

static void draw(const cli_progress *progress, double elapsed, int64_t done, int64_t total)
{
    const double share = total > 0 ? (double)done / (double)total : 1.0;
    const int n_full = (int)(share * BAR_COLUMNS);
    const double rate = elapsed > 0 ? (double)done / elapsed : 0;
    const double left = rate > 0 ? (double)(total - done) / rate : 0;
    char bar[BAR_COLUMNS + 1];
    char rate_text[CLI_NUMBER_MAX];

    memset(bar, ' ', BAR_COLUMNS);
    memset(bar, '#', (size_t)n_full);
    bar[BAR_COLUMNS] = '\0';
    (void)fprintf(stderr, "\r%s [%s] %3d%% %9s/s %2d:%02d left ", progress->what, bar,
                  (int)(share * 100), cli_bytes((int64_t)rate, rate_text), (int)left / 60,
                  (int)left % 60);
    (void)fflush(stderr);
}

bool cli_progress_step(void *ctx, int64_t done, int64_t total)
{
    cli_progress *progress = ctx;

    if (cli_is_interrupted()) {
        return false;
    }
    if (!progress->is_shown || done > total) {
        return true;
    }
    const double now = cli_clock_seconds();
    const double elapsed = now - progress->start_seconds;
    if (elapsed < DELAY_SECONDS || now - progress->last_seconds < INTERVAL_SECONDS) {
        return true;
    }
    draw(progress, elapsed, done, total);
    progress->last_seconds = now;
    progress->is_drawn = true;
    return true;
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->is_drawn) {
        (void)fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
    progress->is_drawn = false;
}

int64_t cli_peak_bytes(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : -1;
}
