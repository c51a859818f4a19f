/* Properties of every accepted configuration: printed with or without origins, it parses to the same configuration and
 * hash; it converts to JSON; its program is built, or rejected with a message. */
#pragma once

#include "record/effective.h"
#include "tests/fuzz/support/fuzz.h"

/* Checks the result of parsing a configuration, and frees it. `config` NULL: it was rejected. */
void fuzz_check_config(fuzz_bench *bench, d9_status status, d9_config *config);
