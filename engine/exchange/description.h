/* Metadata of model.safetensors (__metadata__), which makes the file self-contained. Files of reference cases
 * (verify/reference_case.h) have the rows that are not optional. A model of texts has dawn9.words and dawn9.length in
 * place of the rows about pixels: dawn9.image_size, dawn9.mean, dawn9.std.
 *
 *   dawn9.config                  the effective configuration, YAML (no absolute path but data.table)
 *   dawn9.classes                 JSON list of names; entry i is class i
 *   dawn9.image_size              JSON list, height and width in pixels: the size of the network's input
 *   dawn9.mean, dawn9.std         JSON lists per channel, for pixels in 0..1: x = (pixel / 255 - mean) / std
 *   dawn9.words                   JSON list of the vocabulary: entry i is token i (data/vocabulary.h)
 *   dawn9.length                  JSON integer: number of tokens of a text
 *   dawn9.data                    optional JSON object about the samples that trained the model: d9_provenance in
 *                                 data/dataset.h. Digests and limits are strings of 16 hexadecimal digits
 *                                   "split"       version of the rule that drew the test samples
 *                                   "trained"     list of digests; empty unless the samples are the user's own
 *                                   "test"        a digest; only if "trained" is not empty
 *                                   "validation"  [data.validation, validation_limit], if drawn by name or path
 *   dawn9.version, dawn9.commit   optional: of the build that wrote the file
 *   dawn9.graph                   optional: the network, node by node (exchange/exchange.h)
 *   format                        optional: "pt", which other tools look for */
#pragma once

#include "record/safetensors.h"
#include "train/session.h"

enum { D9_DESCRIPTION_ROWS = 10 };

/* Makes the metadata rows of the session's model; *count: their number. Their texts live in `arena`. dawn9.graph can be
 * missing. */
D9_MUST_USE d9_status d9_description_make(d9_session *session, d9_arena *arena,
                                          d9_metadata metadata[D9_DESCRIPTION_ROWS], int *count);

typedef struct d9_description {
    d9_arena arena;
    const char *config;                       /* YAML, for d9_description_config; "": from d9_description_assume */
    const char *version;                      /* of the dawn9 that wrote the file; NULL: unknown */
    int64_t height, width, channels, classes; /* texts: 1, number of tokens, 1 */
    d9_vocabulary vocabulary;                 /* texts; images: count 0 */
    const char *const *class_names;           /* (classes) */
    double mean[4], std[4];                   /* per channel, in byte units as in d9_dataset; texts: 0 and 1 */
    d9_provenance data;                       /* of training samples; rule 1 if not in file; zeros if `config` is "" */
} d9_description;

/* Reads the metadata of file `path`. Returns D9_DATA, with file and row, if a required row is missing or invalid. The
 * message names the version that wrote the file if it is another. */
D9_MUST_USE d9_status d9_description_read(d9_context *context, const char *path, d9_description **description);
/* Reads the metadata like d9_description_read, but sets *description to NULL if the file has no dawn9.config, like
 * weights from PyTorch. */
D9_MUST_USE d9_status d9_description_find(d9_context *context, const char *path, d9_description **description);
/* True if the file's metadata describe a model of texts. */
bool d9_description_is_of_texts(const d9_safetensors *file);
/* Returns D9_DATA, with `path`, unless the dataset's samples have the model's kind (images or texts) and size. */
D9_MUST_USE d9_status d9_description_check(d9_context *context, const d9_description *description, const char *path,
                                           const d9_dataset *dataset);
/* The vocabulary for d9_config_dataset; NULL if `description` is NULL or describes a model of images. */
static inline const d9_vocabulary *d9_description_words(const d9_description *description) {
    return description && description->vocabulary.count > 0 ? &description->vocabulary : NULL;
}
/* Makes the configuration in the metadata of `path`, with `edits` (NULL: none) over it. Returns D9_USAGE if an edit is
 * invalid, D9_DATA, as d9_description_read, if the configuration is invalid without them. */
D9_MUST_USE d9_status d9_description_config(d9_context *context, const d9_description *description, const char *path,
                                            const d9_config_edits *edits, d9_config **config);
/* Sets *data to the provenance of the samples that trained the model, for d9_config_dataset when `config` evaluates
 * that model. Its prepared_otherwise is true if the image settings of `config` differ from those of the model. */
D9_MUST_USE d9_status d9_description_provenance(d9_context *context, const d9_description *description,
                                                const char *path, const d9_config *config, d9_provenance *data);
/* Sets the normalisation of a loaded dataset to the model's. Returns D9_DATA if classes, or kind or size of the samples
 * differ. */
D9_MUST_USE d9_status d9_description_apply(d9_context *context, const d9_description *description, const char *path,
                                           d9_dataset *dataset);
/* Logs a warning if a class of the model has another name in a dataset of as many classes. */
void d9_description_warn_classes(d9_context *context, const d9_description *description, const char *path,
                                 const d9_dataset *dataset);
/* Returns D9_USAGE if data.normalize of `config` differs from the model's training. */
D9_MUST_USE d9_status d9_description_check_normalize(d9_context *context, const d9_description *description,
                                                     const char *path, const d9_config *config);
/* Logs a warning if validation samples of `dataset`, loaded with data.validation of `config`, were training samples of
 * the model. */
D9_MUST_USE d9_status d9_description_warn_validation(d9_context *context, const d9_description *description,
                                                     const char *path, const d9_config *config,
                                                     const d9_dataset *dataset);
/* True if the file names other classes than the dataset, or in another order. False if the file has no class names. */
bool d9_description_classes_differ(const d9_safetensors *file, const d9_dataset *dataset);
/* Returns D9_USAGE, with the first difference, if a token of the file's vocabulary is another word in the dataset's. */
D9_MUST_USE d9_status d9_description_check_words(d9_context *context, const char *path, const d9_safetensors *file,
                                                 const d9_dataset *dataset);
/* d9_description_read for a file that is already in memory; `path` is for messages. */
D9_MUST_USE d9_status d9_description_decode(d9_context *context, const char *path, const d9_safetensors *file,
                                            d9_description **description);
/* Makes a description for a file without metadata, for example from torchvision: size and normalisation as in `config`,
 * and as many classes as the last layer has rows in the file. The classes are named by number unless the dataset of
 * `config` has the same number of classes. D9_USAGE: the samples are texts, which need a vocabulary; `config` gives no
 * normalisation; no linear layer computes the logits; or the file has no matrix of the last linear layer's name. */
D9_MUST_USE d9_status d9_description_assume(d9_context *context, const char *path, const d9_safetensors *file,
                                            const d9_config *config, d9_description **description);
/* Returns D9_USAGE, with `path`, if the network of `config` reads a stream of tokens: a stream has no samples to
 * predict. */
D9_MUST_USE d9_status d9_description_reject_stream(d9_context *context, const char *path, const d9_config *config);
/* Sizes of a run of `config`: size of the samples and number of classes as described, and one batch of samples each for
 * training and evaluation. */
d9_extent d9_description_extent(const d9_description *description, const d9_config *config, int64_t batch);
/* Builds, in f32 and for evaluation only, the program of a run with the sizes of d9_description_extent. */
D9_MUST_USE d9_status d9_description_program(d9_context *context, const d9_description *description,
                                             const d9_config *config, int64_t batch, d9_program *program);
/* Makes a dataset as described, with `count` samples of class 0 that serve as training and as test set: black images,
 * or texts of padding. The description must outlive it. */
D9_MUST_USE d9_status d9_description_dataset(d9_context *context, const d9_description *description, const char *name,
                                             int64_t count, d9_dataset **dataset);
void d9_description_free(d9_context *context, d9_description *description);
