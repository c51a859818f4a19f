/* A model: a file that builds the plain network's forward graph, and its row in models.def. */
#pragma once

#include "core/option.h"
#include "graph/graph.h"

/* Change of a network's accuracy by training in bf16 instead of f32, measured by pairs of runs with the same seed on
 * CIFAR-10 (docs/page.md names the recipes). */
typedef struct d9_bf16_cost {
    int pairs;          /* 0: not measured */
    double difference;  /* mean over the pairs of accuracy in bf16 minus accuracy in f32, in percentage points */
    double lower_bound; /* one-sided 95% confidence bound of `difference` */
} d9_bf16_cost;

typedef struct d9_model {
    const char *name, *doc, *source;
    const char
        *measure; /* name of the measure of its runs (core/measure.h); NULL: accuracy. Not used with several labels */
    const d9_option *options; /* ends with an all-zero row; offsets into a struct of options_size bytes */
    size_t options_size;
    bool texts;  /* its samples are texts, as tokens; otherwise images */
    bool stream; /* each step reads the next tokens of one long text; the label of a token is the token after it */
    d9_bf16_cost bf16_cost;
    /* Adds the network to the graph. x: the images or tokens; *logits: (N, classes) or, of a stream, (T, N, classes).
     * The engine adds the loss. */
    d9_status (*build)(d9_context *context, const void *options, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits);
} d9_model;

/* The word for a sample in messages (core/text.h). */
static inline const char *d9_model_sample(const d9_model *model) {
    return model->stream ? D9_WORD_WINDOW : model->texts ? D9_WORD_TEXT : D9_WORD_IMAGE;
}

/* True if bf16 was measured to cost the network at most 0.1 points, by the bound. */
static inline bool d9_model_is_accurate_in_bf16(const d9_model *model) {
    return model->bf16_cost.pairs > 0 && model->bf16_cost.lower_bound >= -0.1;
}

#define D9_MODEL_DEFAULT "resnet9"               /* used if a configuration names no model */
const d9_model *d9_model_find(const char *name); /* NULL if unknown */
const d9_model *d9_model_at(int index);          /* NULL past the end */
