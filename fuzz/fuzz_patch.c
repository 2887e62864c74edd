/* fuzz_patch.c — any bytes as the journal of an edit in place, beside any file: it is refused and
 * nothing changes, or the file is the old one, or the new one that the journal describes. Input:
 * which digests to make right (bits 0 to 3: of the fields, the new head, the rest, the old head);
 * the length of the journal, two bytes; the journal; the rest is the file. */
#include "fuzz.h"

#include "base/base.h"
#include "quench/edit.h"

enum { FIELDS = 64, MAX_BYTES = 1 << 16 };

static int64_t field(const uint8_t *journal, int offset)
{
    return (int64_t)qni_load_u64le(journal + offset);
}

/* Of files up to 64 KiB it is one piece. */
static void make_right(int which, uint8_t *journal, int64_t n_journal, const uint8_t *file,
                       int64_t n_file)
{
    const int64_t n_head = field(journal, 24);
    const int64_t n_inserted = field(journal, 16);
    const int64_t n_old = n_head >= n_inserted && n_inserted >= 0 ? n_head - n_inserted : -1;
    const int64_t behind = n_file == field(journal, 8) && n_inserted > 0 ? n_old : n_head;
    if ((which & 2) && n_head == n_journal - FIELDS) {
        qni_store_u64le(journal + 48, qni_hash64(journal + FIELDS, (size_t)n_head, 0));
    }
    if ((which & 4) && behind >= 0 && behind < n_file) {
        qni_store_u64le(journal + 40, qni_hash64(file + behind, (size_t)(n_file - behind), 1));
    }
    if ((which & 8) && n_old >= 0 && n_old <= n_file) {
        qni_store_u64le(journal + 32, qni_hash64(file, (size_t)n_old, 0));
    }
    if (which & 1) {
        qni_store_u64le(journal + 56, qni_hash64(journal, 56, 0));
    }
}

static size_t read_file(const char *path, uint8_t *out, size_t n_most)
{
    FILE *file = fopen(path, "rb");
    require(file != NULL, "the file is there");
    const size_t n = fread(out, 1, n_most, file);
    (void)fclose(file);
    return n;
}

static void check(const char *path, const uint8_t *journal, const uint8_t *file, size_t n_file)
{
    static uint8_t after[2 * MAX_BYTES];
    qn_edit_recovery recovery = QN_EDIT_NOTHING_PENDING;
    const qn_status st = qn_edit_recover(path, &recovery, NULL);
    const size_t n_after = read_file(path, after, sizeof after);
    require(n_after == n_file, "the length stays");
    if (st != QN_OK || recovery == QN_EDIT_UNDONE) {
        require(memcmp(after, file, n_file) == 0, "nothing has changed");
        require(st == QN_OK || qn_edit_check(path, NULL) != QN_OK, "the journal stays");
        return;
    }
    const size_t n_head = (size_t)field(journal, 24);
    require(recovery == QN_EDIT_FINISHED && n_head <= n_file, "the edit is made");
    require(memcmp(after, journal + FIELDS, n_head) == 0, "with the new head");
    require(memcmp(after + n_head, file + n_head, n_file - n_head) == 0, "and the old rest");
    require(qn_edit_check(path, NULL) == QN_OK, "the journal is gone");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static char folder[FUZZ_FOLDER_BYTES];
    static uint8_t journal[MAX_BYTES];
    char path[FUZZ_FOLDER_BYTES + 32];
    char journal_path[FUZZ_FOLDER_BYTES + 32];
    if (n_bytes < 3 || n_bytes > MAX_BYTES) {
        return 0;
    }
    if (folder[0] == '\0') {
        make_folder(folder);
    }
    (void)snprintf(path, sizeof path, "%s/m", folder);
    (void)snprintf(journal_path, sizeof journal_path, "%s/m.quench-patch", folder);
    const size_t n_left = n_bytes - 3;
    const size_t n_told = (size_t)bytes[1] | (size_t)bytes[2] << 8;
    const size_t n_journal = n_told < n_left ? n_told : n_left;
    const uint8_t *file = bytes + 3 + n_journal;
    const size_t n_file = n_left - n_journal;
    memcpy(journal, bytes + 3, n_journal);
    if (n_journal >= FIELDS) {
        make_right(bytes[0], journal, (int64_t)n_journal, file, (int64_t)n_file);
    }
    write_file(journal_path, journal, n_journal);
    write_file(path, file, n_file);
    check(path, journal, file, n_file);
    (void)unlink(path);
    (void)unlink(journal_path);
    (void)rmdir(folder);
    folder[0] = '\0';
    return 0;
}
