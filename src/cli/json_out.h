/* cli/json_out.h — one JSON document into a stream. */
#ifndef CLI_JSON_OUT_H
#define CLI_JSON_OUT_H

#include "cli/cli.h"
#include "quench/json.h"

/* Out of memory ends the program with a message. */
qn_json_writer *cli_json_begin(FILE *out);
/* End the document with a newline and free the writer; `out` as at its beginning. When `status`
 * says that the command failed, a document that is not complete is dropped silently. Returns CLI_OK
 * or CLI_FAILED (said). */
int cli_json_end(qn_json_writer *json, FILE *out, int status);

#endif
