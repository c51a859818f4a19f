/* Operations of texts on the CUDA backend: tokens, embeddings, recurrent layers, the last token, biases of tokens. */
#ifndef D9_TESTS_CUDA_TEXTS_H
#define D9_TESTS_CUDA_TEXTS_H

#include "tests/support/rival.h"

/* Compares each with the reference, in each type. */
void compare_embeddings(rival *r, const d9_type *types, int type_count);
void compare_recurrent_layers(rival *r, const d9_type *types, int type_count);
/* Samples and tokens out of range must give D9_DEVICE. */
void reject_bad_tokens(rival *r);
/* Programs whose rules need more scratch memory than the device has must not be allocated. */
void reject_large_texts(rival *r);

#endif
