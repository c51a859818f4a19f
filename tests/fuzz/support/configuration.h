/* What holds of every configuration that was accepted: printed, with origins and without, it parses to the same, with
 * the same hash; it becomes JSON; and its program is built, or refused with a message. */
#ifndef D9_TESTS_FUZZ_CONFIGURATION_H
#define D9_TESTS_FUZZ_CONFIGURATION_H

#include "record/effective.h"
#include "tests/fuzz/support/fuzz.h"

/* What came of making the configuration, which is freed. NULL: it was refused. */
void fuzz_judge_config(fuzz_bench *bench, d9_status status, d9_config *config);

#endif
