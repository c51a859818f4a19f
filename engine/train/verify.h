/* Reference cases (safetensors files made by another framework) through the trainer's own step program. */
#ifndef D9_TRAIN_VERIFY_H
#define D9_TRAIN_VERIFY_H

#include "backends/backend.h"
#include "core/text.h"

typedef struct d9_verify_options {
    const char *cases;     /* a folder of NAME.safetensors, or one file */
    const char *backend;   /* "reference", "onednn", "auto" */
    const char *precision; /* half precisions are compared with the reference backend at the same edges */
    const char *data;      /* CIFAR-10, for the whitening statistics; NULL or absent: said so, not compared */
    int threads;
} d9_verify_options;

typedef struct d9_verify_row {
    char name[64];  /* the case */
    char group[64]; /* "loss", "logits", "grad/layer1.conv.weight", "final", "eval", "whiten.covariance" */
    double error, limit; /* as reference/README.md defines them per group; NaN fails */
    double cosine;       /* gradients in half precision; NAN elsewhere */
    int64_t compared;    /* elements; zero fails */
    bool passed, skipped;
    char note[96];       /* why skipped */
} d9_verify_row;

typedef void (*d9_verify_sink)(void *user, const d9_verify_row *row);

/* Runs every case, reporting each row. D9_CHECK_FAILED when a row failed; D9_DATA for a file that is no case. */
D9_MUST_USE d9_status d9_verify(d9_context *context, const d9_verify_options *options, d9_verify_sink sink, void *user);

#endif
