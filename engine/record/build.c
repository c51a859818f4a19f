/* Version, commit and compiler of this build, for records and `dawn9 --version`. */
#include "record/record.h"
#include "commit.h" /* generated: D9_COMMIT */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

const char *d9_build_version(void) { return DAWN9_VERSION; }

const char *d9_build_commit(void) { return D9_COMMIT; }

const char *d9_build_compiler(void) { return COMPILER; }
