/* The option table: each row describes one key. Reading YAML and --set follow it; the help text, the printed effective
 * configuration and the reference page are written from it. */
#pragma once

#include "core/arena.h"
#include "core/schedule.h"
#include "core/text.h"

typedef enum d9_option_type {
    D9_OPTION_NONE,    /* ends a table */
    D9_OPTION_BOOL,    /* bool: on, off, true, false, yes, no */
    D9_OPTION_INT,     /* int64_t */
    D9_OPTION_REAL,    /* double */
    D9_OPTION_TEXT,    /* const char * (in the configuration's arena) */
    D9_OPTION_CHOICE,  /* int: index into `choices` */
    D9_OPTION_INTS,    /* d9_int_list */
    D9_OPTION_REALS,   /* d9_real_list */
    D9_OPTION_SCHEDULE /* d9_schedule (core/schedule.h): {knots: [0, 20%, end-2], values: [0, 1, 0.1]} */
} d9_option_type;

enum { D9_LIST_MAX = 16 };
typedef struct d9_int_list {
    int count;
    int64_t values[D9_LIST_MAX];
} d9_int_list;
typedef struct d9_real_list {
    int count;
    double values[D9_LIST_MAX];
} d9_real_list;

typedef struct d9_option {
    const char *key;
    d9_option_type type;
    size_t offset;           /* in bytes, of the key's field in the struct that the table fills */
    const char *fallback;    /* the default, written as in YAML ("[64, 128]", "0.3"). NULL: the key is required. "": no
                                default; a missing text is NULL, a missing real NaN, a missing list empty */
    double minimum, maximum; /* inclusive, for numbers and each element of a list or schedule; both 0: unbounded */
    const char *choices;     /* legal values of a choice or text, "before_act|before_norm"; NULL: any text */
    const char *doc;         /* help text, with the unit; may go on with "\nWORD: meaning" for each of `choices` */
} d9_option;
