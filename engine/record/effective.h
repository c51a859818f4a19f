/* The effective configuration in run records, as YAML and JSON; helpers for JSON; measure, score and faults of a
 * result.json. */
#pragma once

#include "config/config.h"
#include <jansson.h>

/* Parses a JSON file. If its content is not JSON, *value is NULL, `error` (may be NULL) says where, and the status is
 * D9_OK. A file that cannot be read: D9_DATA. The caller owns the reference. */
D9_MUST_USE d9_status d9_json_read(d9_context *context, const char *path, json_t **value, json_error_t *error);

/* Adds the YAML of d9_config_print, with no absolute path but that of data.table: data.path and backend_options.choices
 * are left out if they are absolute. train.from has the file's checksum in place of its path. */
D9_MUST_USE d9_status d9_effective_yaml(const d9_config *config, d9_text *text);
/* Converts the YAML of d9_effective_yaml to a JSON object. The caller owns the reference. */
D9_MUST_USE d9_status d9_effective_json(d9_context *context, const d9_config *config, json_t **object);

/* A JSON number; null for NaN and infinities, which JSON lacks. */
json_t *d9_json_number(double value);
/* A JSON list of strings; a JSON list of pixel values, which are converted from 0..255 to 0..1. */
json_t *d9_json_texts(const char *const *texts, int64_t count);
json_t *d9_json_pixels(const double *values, int64_t count);
/* The text as a JSON string; null if it is NULL or not UTF-8, as a title that comes from a file name may be. */
json_t *d9_json_text(const char *text);
/* A path as a JSON string. If it is not UTF-8, each byte that is not ASCII becomes `?`. NULL: out of memory. */
json_t *d9_json_path(d9_context *context, d9_arena *arena, const char *path);
/* The number at `key` of an object; NAN if there is none. */
double d9_json_real(const json_t *object, const char *key);

/* The measure of a result.json: accuracy if it names none; NULL if it names one that this build does not know. */
const d9_measure *d9_result_measure(const json_t *result);
/* The score in a result.json or in one of its epochs, with TTA if it is recorded; NAN: not evaluated. */
double d9_json_score(const json_t *object, const d9_measure *measure);

/* Describes an impossible value in a result.json (an accuracy of 150, a negative time) or a measure that this build
 * does not know; NULL if there is none. Missing keys are not reported. */
const char *d9_result_fault(const json_t *result);
