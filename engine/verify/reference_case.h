/* A reference case: a safetensors file with one batch, or one stream of tokens, initial weights and the results of
 * another framework (tests/golden/README.md lists its tensors). Its metadata has all that is needed to run it here:
 *
 *   dawn9.config, dawn9.classes, dawn9.image_size, dawn9.mean, dawn9.std   as in a model file (exchange/description.h):
 *                   network and tricks, classes, size of the images, normalisation
 *   dawn9.words, dawn9.length   in a case of texts instead of image_size, mean and std
 *   case            JSON object of settings: "steps"; "lr", a list with the learning rate of each step, instead of
 *                   the configuration's schedule; "bn_eps" and "bn_momentum" if there are norms
 *   dawn9.names     optional JSON object that maps names in the file to the engine's names, where they differ:
 *                   {"prep.conv.weight": "stem.conv.weight"}
 *   dawn9.patches   optional JSON object, in a file with statistics of image patches: {"images": 2000, "size": 3,
 *                   "covariance": TENSOR, "eigenvalues": TENSOR}, of the first `images` training images of the
 *                   configuration's dataset
 *
 * An augmentation case (`augmentation` below) has no initial weights; `case` and labels are optional in it. */
#pragma once

#include "exchange/description.h"

struct json_t;

typedef struct d9_patch_settings {
    int64_t images;
    int size;
    char *covariance, *eigenvalues; /* names of tensors; NULL: the file has no such statistics */
} d9_patch_settings;

typedef struct d9_reference_case {
    char name[64]; /* name of the file, without folder and ending */
    d9_safetensors *file;
    d9_description *description;
    d9_config *config;
    struct json_t *names; /* dawn9.names; NULL if missing */
    /* True: the file holds a batch, the random draws of its augmentation and the augmented batch; no step is run. */
    bool augmentation;
    double *rates; /* (steps) learning rates; NULL in an augmentation case */
    int64_t steps;
    double norm_epsilon, norm_momentum; /* of all norms; defaults of d9_graph_batch_norm if the file has none */
    d9_patch_settings patches;
    d9_arena arena;
} d9_reference_case;

/* Opens a case and checks its metadata; d9_reference_case_dataset checks its batch. Returns D9_DATA if it is not a
 * reference case, or if its configuration or settings are invalid. */
D9_MUST_USE d9_status d9_reference_case_open(d9_context *context, const char *path, d9_reference_case *self);
void d9_reference_case_close(d9_context *context, d9_reference_case *self);

/* Returns D9_DATA if a norm of the graph has another epsilon or momentum than the case. */
D9_MUST_USE d9_status d9_reference_case_check_norms(d9_context *context, const d9_reference_case *self,
                                                    const d9_graph *graph);

/* Name in the file of the engine's value `in_engine`; `in_engine` itself unless dawn9.names has another. */
const char *d9_reference_case_name_in_file(const d9_reference_case *self, const char *in_engine);
/* Initial values by name in the file: tensor init/NAME, or NAME if no step changes the value; NULL: neither. */
const d9_tensor *d9_reference_case_initial(const d9_reference_case *self, const char *in_file);
/* Makes a dataset of the batch, for training and evaluation. The dataset refers to the case, which must outlive it. */
D9_MUST_USE d9_status d9_reference_case_dataset(d9_context *context, const d9_reference_case *self,
                                                d9_dataset **dataset);
