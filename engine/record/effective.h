/* The effective configuration as a record holds it: no absolute path, and as JSON beside the YAML. */
#ifndef D9_RECORD_EFFECTIVE_H
#define D9_RECORD_EFFECTIVE_H

#include "config/config.h"
#include <jansson.h>

/* The JSON of a file. NULL, and where it went wrong in `error` (NULL: nobody asks), where the file holds something
 * else; one that cannot be read is D9_DATA. The caller owns the reference. */
D9_MUST_USE d9_status d9_json_read(d9_context *context, const char *path, json_t **value, json_error_t *error);

/* The YAML of d9_config_print; `data.path` is left out when it is absolute, because it names this machine,
 * and a title that is not UTF-8 becomes "untitled". */
D9_MUST_USE d9_status d9_effective_yaml(const d9_config *config, d9_text *text);
/* The same as one JSON object. The caller owns the reference. */
D9_MUST_USE d9_status d9_effective_json(d9_context *context, const d9_config *config, json_t **object);

/* Numbers JSON can hold: null for NaN and infinities. */
json_t *d9_json_number(double value);
/* Lists, as the metadata of a model and result.json hold them: texts; values in byte units as pixels in 0..1. */
json_t *d9_json_texts(const char *const *texts, int64_t count);
json_t *d9_json_pixels(const double *values, int64_t count);
/* A path; one that is not UTF-8 with ? for every byte that is not ASCII. NULL: out of memory. */
json_t *d9_json_path(d9_context *context, d9_arena *arena, const char *path);
/* A number of an object; NAN where there is none. */
double d9_json_real(const json_t *object, const char *key);

/* What no run can have said in the result.json of a finished run (an accuracy of 150, a time below zero); NULL:
 * nothing. What it lacks is not judged here. */
const char *d9_result_fault(const json_t *result);

#endif
