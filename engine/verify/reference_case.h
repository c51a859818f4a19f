/* A reference case: a safetensors file with one batch, initial weights and what another framework made of them
 * (tests/golden/README.md lists its tensors). Its metadata says all that is needed to run it here:
 *
 *   dawn9.config, dawn9.classes, dawn9.image_size, dawn9.mean, dawn9.std   as in a model file (exchange/description.h):
 *                   network and tricks, classes, size of the images, normalisation
 *   case            JSON object of settings: "steps"; "lr", a list with the learning rate of each step, instead of
 *                   the configuration's schedule; "bn_eps" and "bn_momentum" where there are norms
 *   dawn9.names     JSON object, from a name in the file to the engine's name of that value, where the two differ:
 *                   {"prep.conv.weight": "stem.conv.weight"}; may be absent
 *   dawn9.patches   JSON object, in a file with statistics of image patches: {"images": 2000, "size": 3,
 *                   "covariance": TENSOR, "eigenvalues": TENSOR}, of the first `images` training images of the
 *                   configuration's data set; may be absent */
#ifndef D9_VERIFY_REFERENCE_CASE_H
#define D9_VERIFY_REFERENCE_CASE_H

#include "config/config.h"
#include "data/dataset.h"
#include "exchange/description.h"
#include "record/safetensors.h"

struct json_t;

typedef struct d9_patch_settings {
    int64_t images;
    int size;
    char *covariance, *eigenvalues; /* names of tensors; NULL: the file has no such statistics */
} d9_patch_settings;

typedef struct d9_reference_case {
    char name[64]; /* the file's, without folder and ending */
    d9_safetensors *file;
    d9_description *description;
    d9_config *config;
    struct json_t *names; /* dawn9.names; NULL: none */
    /* True: the file holds a batch, the random draws of its augmentation and the augmented batch; no step is run. */
    bool augmentation;
    double *rates; /* (steps) learning rates; NULL in an augmentation case */
    int64_t steps;
    double norm_epsilon, norm_momentum; /* of its norms; what d9_graph_norm gives where the file is silent */
    d9_patch_settings patches;
    d9_arena arena;
} d9_reference_case;

/* D9_DATA: not a reference case, or one whose parts do not go together; the message names the file and the part. */
D9_MUST_USE d9_status d9_reference_case_open(d9_context *context, const char *path, d9_reference_case *self);
void d9_reference_case_close(d9_context *context, d9_reference_case *self);

/* D9_DATA: a norm of this graph has another epsilon or momentum than those of the case. */
D9_MUST_USE d9_status d9_reference_case_check_norms(d9_context *context, const d9_reference_case *self,
                                                    const d9_graph *graph);

/* What the file calls a value of the engine. */
const char *d9_reference_case_file_name(const d9_reference_case *self, const char *in_engine);
/* The tensor that a value starts from, by the file's name: init/NAME, or NAME where no step changes the value. NULL:
 * the file has neither. */
const d9_tensor *d9_reference_case_initial(const d9_reference_case *self, const char *in_file);
/* The batch as a data set, for training and evaluation alike. It refers to the case, which must outlive it. */
D9_MUST_USE d9_status d9_reference_case_dataset(d9_context *context, const d9_reference_case *self,
                                                d9_dataset **dataset);

#endif
