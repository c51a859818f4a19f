/* Folders of class folders of texts, as samples of tokens. */
#pragma once

#include "data/classes.h"

/* d9_file_kind.decode of texts: reads and checks a file, and keeps its bytes. */
D9_MUST_USE d9_status d9_text_decode(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                                     d9_class_file *file, uint8_t *sample);

/* Loads a folder of texts, with the sizes that d9_text_describe fills in. `published`: for each class of train, then of
 * test, its published checksum, for options->check; NULL: none. */
D9_MUST_USE d9_status d9_texts_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                                    const d9_file_kind *kind, const d9_dataset_file *published, d9_dataset *dataset);
