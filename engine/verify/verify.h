/* Reference cases (safetensors files made by another framework) through the trainer's own step program. */
#ifndef D9_VERIFY_VERIFY_H
#define D9_VERIFY_VERIFY_H

#include "backends/backend.h"
#include "core/text.h"
#include "train/trainer.h"

typedef struct d9_verify_options {
    const char *cases;   /* a folder of NAME.safetensors, or one file */
    const char *backend; /* "reference", "onednn", "auto" */
    /* Half precisions are compared with the reference backend at the same edges; tf32 with the files and the reference
     * in f32, within the limits of half precision wherever convolutions had a part. */
    const char *precision;
    const char *data; /* CIFAR-10, for the whitening statistics; NULL or absent: said so, not compared */
    int threads;
} d9_verify_options;

typedef struct d9_verify_row {
    char name[64];       /* the case */
    char group[64];      /* "loss", "logits", "grad/layer1.conv.weight", "final", "eval", "whiten.covariance" */
    double error, limit; /* as reference/README.md defines them per group; NaN fails */
    double cosine;       /* gradients in half precision and tf32; NAN elsewhere */
    double sensitivity;  /* the reference's own error when its initial weights move a little (rule by rule: when its
                          * inputs are cut to tf32); NAN: not consulted */
    int64_t compared;    /* elements; zero fails */
    bool passed, skipped;
    char note[96]; /* why skipped */
} d9_verify_row;

typedef void (*d9_verify_sink)(void *user, const d9_verify_row *row);

/* Runs every case, reporting each row: one per tensor group, and one that sums up the rule by rule comparison of
 * the first step (backends other than the reference).
 *
 * Several steps of a network with max pooling amplify rounding: a window whose two largest values nearly tie sends
 * a whole gradient elsewhere. A row beyond its limit is therefore held against the case's own sensitivity, the
 * largest error of the reference backend in the same precision when its initial weights move by 2^-23 (f32),
 * 2^-14 (bf16), 2^-17 (fp16) or 2^-11 (tf32) of themselves, eight times: it passes within twice that, and says so. The
 * rule by rule row has no such excuse; what it grants convolutions in tf32 is said below. D9_CHECK_FAILED when a row
 * failed; D9_DATA for a file that is no case. */
D9_MUST_USE d9_status d9_verify(d9_context *context, const d9_verify_options *options, d9_verify_sink sink, void *user);

/* One step, rule by rule. Both sessions have the same configuration, precision (tf32 is judged in f32) and `keep_all`
 * program; `judge` is on the reference backend. The tested backend runs its step; then every rule's nodes are run on
 * the judge from the tested backend's own inputs, and the outputs compared. Rounding errors so never travel from one
 * rule to the next, and the limits can be tight whatever the network amplifies:
 *
 *   integers and the augmented batch   equal
 *   f64 1e-9; f32 1e-5, sums over a whole batch (gradients of parameters, statistics) 1e-4
 *   half precision: an output rounded to it 2e-3, cosine 0.99999; sums 1e-3, since they may be of values that the
 *   rule rounded inside and that cancel; others as f32
 *   tf32: what a convolution made 2e-3, cosine 0.99999, or within twice what the judge's own answer moves by when its
 *   inputs are cut to tf32 (whitening cancels most of what it adds up); others as f32
 *
 * A row per rule: its name, the role of its first node, the worst output in `note`. `failed` counts rows. */
D9_MUST_USE d9_status d9_rules_compare(d9_session *tested, d9_session *judge, int64_t step, const char *name,
                                       d9_verify_sink sink, void *user, int *failed);

#endif
