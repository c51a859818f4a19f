/* What a test says where it cannot run, in the form that tests/run.sh reads: "skipped: REASON: why". The reasons that
 * CI accepts are listed there, each with a look at the machine. Wants cmocka.h before it. */
#ifndef D9_TESTS_SKIP_H
#define D9_TESTS_SKIP_H

/* The exit status of a program that can run nothing of what it has. */
static inline int skipped(const char *reason, const char *why) {
    print_message("skipped: %s: %s\n", reason, why);
    return 77;
}

/* Ends the test that calls it, not its program. */
#define skip_for(reason, why) (print_message("skipped: %s: %s\n", reason, why), skip())

#endif
