/* Reference cases (reference_case.h: files made by another framework) through the trainer's own step program. */
#ifndef D9_VERIFY_VERIFY_H
#define D9_VERIFY_VERIFY_H

#include "core/context.h"

typedef struct d9_verify_options {
    const char *cases;   /* a folder of NAME.safetensors, or one file */
    const char *backend; /* "reference", "cpu", "auto" */
    /* Half precisions are compared with the reference backend, which rounds at the same places. tf32 is compared with
     * the files, and with the reference backend in f32, within the limits of half precision. */
    const char *precision;
    const char *data; /* folder of the cases' data set, for patch statistics; where it is not there, the row says so */
    int threads;
} d9_verify_options;

typedef struct d9_verify_row {
    char name[96];       /* the case */
    char group[64];      /* "loss", "final state", "rule by rule", or the name of one tensor */
    double error, limit; /* as tests/golden/README.md defines them per group; NaN fails */
    double cosine;       /* gradients in half precision and tf32; NAN elsewhere */
    double sensitivity;  /* the reference's own error when its initial weights are perturbed (rule by rule: when its
                          * inputs are cut to tf32); NAN: not consulted */
    int64_t compared;    /* elements; zero fails */
    bool passed, skipped;
    char note[96]; /* the tensor with the worst error, or why the row was skipped */
} d9_verify_row;

typedef void (*d9_verify_sink)(void *user, const d9_verify_row *row);

/* Runs every case and reports its rows: one for each group of tensors; in half precision and tf32 one for the reference
 * backend itself, in f64; one that sums up training steps rule by rule and one for evaluations (rule_comparison.h; not
 * for the reference backend); and one for each tensor of patch statistics. The steps are those of the case, and one
 * more whose convolutions make so little that a norm's epsilon counts.
 *
 * Several steps of a network with max pooling amplify rounding: where the two largest values of a window nearly tie,
 * rounding decides which of them receives the gradient. So a row beyond its limit is compared with the case's own
 * sensitivity. That is the largest error of the reference backend, in the same precision, when its initial weights are
 * perturbed by up to 2^-24 (f64), 2^-20 (f32), 2^-14 (bf16), 2^-17 (fp16) or 2^-11 (tf32) of themselves, in as many
 * ways as it takes and in eight at most. Within twice that the row passes, and reports the sensitivity. Rule by rule
 * there is no such tolerance, except for convolutions in tf32.
 *
 * D9_CHECK_FAILED: a row failed. D9_DATA: a file is no reference case. */
D9_MUST_USE d9_status d9_verify(d9_context *context, const d9_verify_options *options, d9_verify_sink sink, void *user);

#endif
