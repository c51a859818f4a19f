/* A system whose k-th call of one kind fails, for tests that let every call fail once. */
#ifndef D9_TESTS_EACH_CALL_H
#define D9_TESTS_EACH_CALL_H

#include "core/system.h"
#include "tests/support/share.h"

#define EACH_CALL(X)                                                                                                   \
    X(allocate)                                                                                                        \
    X(open)                                                                                                            \
    X(read)                                                                                                            \
    X(write)                                                                                                           \
    X(truncate)                                                                                                        \
    X(sync)                                                                                                            \
    X(file_stat)                                                                                                       \
    X(stat)                                                                                                            \
    X(rename)                                                                                                          \
    X(remove)                                                                                                          \
    X(make_directory)                                                                                                  \
    X(lock)

typedef enum each_call {
#define D9_ENUM_(name) CALL_##name,
    EACH_CALL(D9_ENUM_)
#undef D9_ENUM_
        CALL_COUNT
} each_call;
extern const char *const each_call_names[CALL_COUNT];

typedef struct planted {
    int64_t calls[CALL_COUNT]; /* made so far */
    each_call kind;
    int64_t victim; /* from 1; 0: none */
    bool met;
    const d9_system *base;
} planted;

/* The calls of `base`, which needs no `user`, with the one that fails. */
d9_system planted_system(planted *p, const d9_system *base);

#endif
