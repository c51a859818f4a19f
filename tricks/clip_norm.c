/* clip_norm: scales the gradient down if its norm over all parameters is too large. */
#include "tricks/trick.h"

typedef struct clip_norm {
    double most;
} clip_norm;

static const d9_option options[] = {{"most", D9_OPTION_REAL, offsetof(clip_norm, most), "0.25", 1e-9, 1e9, NULL,
                                     "largest norm of the gradient of the mean loss, over all trained parameters"},
                                    {0}};

static d9_status on_optimizer(d9_context *context, const void *opaque, const d9_graph *graph, d9_groups *groups) {
    const clip_norm *self = opaque;
    (void)context, (void)graph;
    groups->clip = self->most;
    return D9_OK;
}

const d9_trick d9_trick_clip_norm = {
    .name = "clip_norm",
    .doc = "scales the gradient down where its norm is too large: recurrent networks keep their large learning rates",
    .source = "Pascanu et al. 2013, arXiv 1211.5063; torch.nn.utils.clip_grad_norm_",
    .effect = "part of PyTorch's word_language_model: clip 0.25 at learning rate 20",
    .options = options,
    .options_size = sizeof(clip_norm),
    .conflicts = {"freeze", "whitening_bias", "hard_examples"}, /* the norm would include unused gradients */
    .on_optimizer = on_optimizer,
};
