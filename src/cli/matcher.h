/* cli/matcher.h — regular expressions for the library's qn_matcher; the one place that knows
 * PCRE2. */
#ifndef CLI_MATCHER_H
#define CLI_MATCHER_H

#include "cli/cli.h"
#include "quench/model.h"

/* ECMAScript's meaning, as std::regex_search has it: bytes, not characters; searched, not
 * anchored. Static storage. */
const qn_matcher *cli_matcher(void);

/* "PCRE2 10.42 ..." or NULL in a build without it. */
const char *cli_matcher_version(void);

#endif
