/* driver.c FILE|FOLDER... — replays inputs through a fuzz target without a fuzzing engine. Exit
 * status 1 if there was nothing to replay. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { N_BYTES_MAX = 1 << 20 };

static int n_replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    uint8_t *room = malloc(N_BYTES_MAX);
    const size_t n = fread(room, 1, N_BYTES_MAX, file);
    (void)fclose(file);
    uint8_t *exact = malloc(n + 1); /* so that a sanitizer sees the end */
    memcpy(exact, room, n);
    free(room);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    n_replayed++;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            replay_file(argv[i]);
            continue;
        }
        for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            char path[4096];
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (entry->d_name[0] != '.') {
                replay_file(path);
            }
        }
        (void)closedir(folder);
    }
    printf("%d inputs replayed\n", n_replayed);
    return n_replayed == 0;
}
