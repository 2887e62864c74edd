/* cli/edit_args.h — what `quench edit` was asked for. */
#ifndef CLI_EDIT_ARGS_H
#define CLI_EDIT_ARGS_H

#include "cli/cli.h"
#include "quench/edit.h"

typedef struct edit_values {
    cli_list sets;
    cli_list set_files;
    cli_list removals;
    cli_list renames;
    cli_list tensor_removals;
    cli_list tensor_renames;
    bool keep_split;
    bool do_resume;
    bool no_sync;
    bool is_dry_run;
    bool want_sha256;
    bool show_stats;
    bool is_in_place;
    bool do_recover;
    int64_t reserve;
} edit_values;

/* The edits and every text that they point to. */
typedef struct edit_list {
    qn_edit *edits;
    cli_text *texts; /* two for each edit: a name, a new name or value */
    int n;
} edit_list;

/* The edits of call->values, what makes room before what takes it. An exit status; the error is
 * said. Free the list also after a failure. */
int edit_args_parse(const cli_call *call, edit_list *out);
void edit_args_free(edit_list *list);
/* "--OPTION 'TEXT': WHY" as bad usage. */
int edit_args_bad(const cli_call *call, const char *option, const char *text, const char *why);

#endif
