/* Included before every file that tests/analyze.sh checks: facts that an analyser, which sees one file at a time,
 * cannot know. A file that defines one of these functions is checked without its macro. */
#define _GNU_SOURCE /* empty, as in the files that define it */
#include "config/tree.h"

/* These functions always return an error. */
#ifndef D9_MODEL_CONTEXT
#define d9_fail(context, status, ...) ((void)d9_fail((context), (status), __VA_ARGS__), (status))
#endif
#ifndef D9_MODEL_TREE
#define d9_tree_fail_at(...)   ((void)d9_tree_fail_at(__VA_ARGS__), D9_USAGE)
#define d9_tree_fail_text(...) ((void)d9_tree_fail_text(__VA_ARGS__), D9_USAGE)
#endif

/* cppcheck does not read system headers, and reports a prototype after an attribute as an error. */
#ifdef D9_CPPCHECK
#undef D9_MUST_USE
#define D9_MUST_USE
#undef DAWN9_VERSION /* cppcheck loses the quotes of the compiler's option */
#define DAWN9_VERSION "0"
#define json_array_foreach(array, index, value)                                                                        \
    for (index = 0; index < json_array_size(array) && (value = json_array_get(array, index)); index++)
#define json_object_foreach(object, key, value)                                                                        \
    for (key = json_object_iter_key(json_object_iter(object)); key && (value = json_object_get(object, key));          \
         key = json_object_iter_key(json_object_iter_next(object, json_object_key_to_iter(key))))
#endif
