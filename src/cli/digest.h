/* cli/digest.h — SHA-256; the one place that knows libcrypto. */
#ifndef CLI_DIGEST_H
#define CLI_DIGEST_H

#include "cli/cli.h"

typedef struct cli_digest cli_digest;
#define CLI_DIGEST_HEX 65 /* characters of a SHA-256 with its NUL */

/* NULL, with the reason in `err`, in a build without libcrypto. */
cli_digest *cli_digest_new(qn_error *err);
void cli_digest_add(cli_digest *digest, const void *bytes, size_t n_bytes);
/* The digest so far in hexadecimal; begins a new one. */
void cli_digest_take(cli_digest *digest, char out_hex[CLI_DIGEST_HEX]);
void cli_digest_free(cli_digest *digest);

#endif
