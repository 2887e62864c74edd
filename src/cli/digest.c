/* digest.c — SHA-256 through libcrypto. */
#include "cli/digest.h"

#ifdef CLI_HAVE_CRYPTO

#include <openssl/evp.h>

struct cli_digest {
    EVP_MD_CTX *context;
    bool is_failed;
};

cli_digest *cli_digest_new(qn_error *err)
{
    cli_digest *digest = cli_alloc(1, sizeof *digest);

    digest->context = EVP_MD_CTX_new();
    if (digest->context == NULL || EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) != 1) {
        cli_digest_free(digest);
        (void)cli_set_error(err, QN_ERR_UNSUPPORTED, "libcrypto offers no SHA-256 here");
        return NULL;
    }
    return digest;
}

void cli_digest_add(cli_digest *digest, const void *bytes, size_t n_bytes)
{
    digest->is_failed |= EVP_DigestUpdate(digest->context, bytes, n_bytes) != 1;
}

void cli_digest_take(cli_digest *digest, char out_hex[CLI_DIGEST_HEX])
{
    unsigned char bytes[EVP_MAX_MD_SIZE] = {0};
    unsigned n_bytes = 0;

    digest->is_failed |= EVP_DigestFinal_ex(digest->context, bytes, &n_bytes) != 1;
    digest->is_failed |= EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) != 1;
    if (digest->is_failed || 2 * n_bytes + 1 != CLI_DIGEST_HEX) {
        cli_error("libcrypto failed to compute a SHA-256");
        exit(CLI_FAILED);
    }
    for (unsigned i = 0; i < n_bytes; i++) {
        (void)snprintf(out_hex + 2 * i, 3, "%02x", bytes[i]);
    }
}

void cli_digest_free(cli_digest *digest)
{
    if (digest != NULL) {
        EVP_MD_CTX_free(digest->context);
        free(digest);
    }
}

#else

cli_digest *cli_digest_new(qn_error *err)
{
    (void)cli_set_error(err, QN_ERR_UNSUPPORTED,
                        "this build has no libcrypto and so no SHA-256; build it with libssl-dev");
    return NULL;
}

void cli_digest_add(cli_digest *digest, const void *bytes, size_t n_bytes)
{
    (void)digest;
    (void)bytes;
    (void)n_bytes;
}

void cli_digest_take(cli_digest *digest, char out_hex[CLI_DIGEST_HEX])
{
    (void)digest;
    out_hex[0] = '\0';
}

void cli_digest_free(cli_digest *digest)
{
    (void)digest;
}

#endif
