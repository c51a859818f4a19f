/* A system in which call number `victim` of one kind fails, for tests that let each call fail in turn. */
#pragma once

#include "core/system.h"
#include "tests/support/test.h"

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

typedef struct planted {       /* which call fails, and what happened so far */
    int64_t calls[CALL_COUNT]; /* calls of each kind so far */
    each_call kind;            /* of the failing call */
    int64_t victim;            /* number of the failing call, from 1; 0: none */
    bool reached;              /* the failing call was made */
    int64_t live;              /* allocations not yet released */
    const d9_system *base;
} planted;

/* Returns a system that counts calls in *p and passes all but the failing one to `base`, which must not need `user`. */
d9_system planted_system(planted *p, const d9_system *base);
/* Moves the failure to the next allocation, first to allocation 1. False: the previous one was not reached. A loop:
 *     planted p = {0};
 *     while (planted_next_allocation(&p)) planted_check(&p, CALL);
 * planted_check: the status must be D9_DEVICE if the allocation failed, otherwise D9_OK, and nothing is left allocated.
 */
bool planted_next_allocation(planted *p);
void planted_check(const planted *p, d9_status status);
