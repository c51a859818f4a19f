/* What a model file says about itself, so that nothing else is needed to use it: __metadata__ of model.safetensors. The
 * files of reference cases (verify/reference_case.h) say the same.
 *
 *   dawn9.config                  the effective configuration, YAML (no absolute path)
 *   dawn9.classes                 JSON list of names; entry i is class i
 *   dawn9.image_size              JSON list, height and width: what images are resized to
 *   dawn9.mean, dawn9.std         JSON lists per channel, of pixels in 0..1: x = (pixel / 255 - mean) / std
 *   dawn9.version, dawn9.commit   of the build that wrote it; may be absent
 *   dawn9.graph                   the network node by node (exchange/network.h); may be absent
 *   format                        "pt", which other tools look for; may be absent */
#ifndef D9_EXCHANGE_DESCRIPTION_H
#define D9_EXCHANGE_DESCRIPTION_H

#include "record/safetensors.h"
#include "train/trainer.h"

enum { D9_DESCRIPTION_ROWS = 9 };

/* The rows for what the session trains, `count` of them; their texts live in `arena`. */
D9_MUST_USE d9_status d9_description_make(d9_session *session, d9_arena *arena,
                                          d9_metadata metadata[D9_DESCRIPTION_ROWS], int *count);

typedef struct d9_description {
    d9_arena arena;
    const char *config; /* YAML, for d9_config_parse */
    int64_t height, width, channels, classes;
    const char *const *class_names; /* (classes) */
    double mean[4], std[4];         /* per channel, byte units as in d9_dataset */
    const char *version, *commit;   /* "" where the file does not say */
} d9_description;

/* A row that is missing or makes no sense: D9_DATA naming file and row. */
D9_MUST_USE d9_status d9_description_read(d9_context *context, const char *path, d9_description **description);
/* The normalisation of a loaded dataset becomes the model's. Other classes or another size of image: D9_DATA. */
D9_MUST_USE d9_status d9_description_apply(d9_context *context, const d9_description *description, const char *path,
                                           d9_dataset *dataset);
/* Whether the file names its classes, and not as the dataset does: others, or in another order. */
bool d9_description_names_others(const d9_safetensors *file, const d9_dataset *dataset);
/* d9_description_read of a file that was read before; `path` is for messages. */
D9_MUST_USE d9_status d9_description_find(d9_context *context, const char *path, const d9_safetensors *file,
                                          d9_description **description);
/* Of a file without metadata, torchvision's for example: size and normalisation as `config` promises them, as many
 * classes as the last layer of its network has rows in the file. They have numbers for names, unless the promised
 * dataset has as many. */
D9_MUST_USE d9_status d9_description_assume(d9_context *context, const char *path, const d9_safetensors *file,
                                            const d9_config *config, d9_description **description);
/* A run of `config` over images and classes as described, a batch in all. */
d9_extent d9_description_extent(const d9_description *description, const d9_config *config, int64_t batch);
/* The program, in f32, of such a run. */
D9_MUST_USE d9_status d9_description_program(d9_context *context, const d9_description *description,
                                             const d9_config *config, int64_t batch, d9_program *program);
/* A dataset as described, the same `count` black images of class 0 for training and evaluation. The description must
 * outlive it. */
D9_MUST_USE d9_status d9_description_dataset(d9_context *context, const d9_description *description, const char *name,
                                             int64_t count, d9_dataset **dataset);
void d9_description_free(d9_context *context, d9_description *description);

#endif
