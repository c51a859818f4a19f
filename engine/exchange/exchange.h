/* Values in the layout that other tools use: convolution weights O,I,H,W, images N,C,H,W, statistics averaged over
 * their ghost groups. The engine's own layout is O,H,W,I and N,H,W,C. The one place where the two meet.
 *
 * A linear layer that reads images flattens them, C,H,W outside and H,W,C here: the columns of its weight are in that
 * order, so they are permuted as those of a convolution are. */
#ifndef D9_EXCHANGE_EXCHANGE_H
#define D9_EXCHANGE_EXCHANGE_H

#include "train/trainer.h"

/* Shape of a value outside: (O,I,H,W), (O,I), (C). */
d9_shape d9_exchange_shape(const d9_value *value);
enum { D9_SHAPE_TEXT = 96 };
/* "(64, 3, 7, 7)": for messages. Returns `text`. */
const char *d9_exchange_shape_text(const d9_shape *shape, char text[D9_SHAPE_TEXT]);

/* Reads a value into d9_shape_count(d9_exchange_shape) doubles. `buffer`: the value's own, or another in which it has
 * the same place: for a parameter GRADIENT, or an accumulator. */
D9_MUST_USE d9_status d9_exchange_read(d9_session *session, const d9_value *value, d9_buffer buffer, double *outside);
/* Every number finite, no variance below zero; otherwise D9_DATA, naming the file at `path` and the value. What comes
 * from a model file goes through here before it is used. */
D9_MUST_USE d9_status d9_exchange_check(d9_context *context, const char *path, const d9_value *value,
                                        const double *outside);
/* Puts a parameter or statistic of the graph where it lies in `state`, which is laid out as STATE. A statistic fills
 * every ghost group with the same numbers. */
void d9_exchange_in(const d9_graph *graph, const d9_value *value, const double *outside, double *state);

/* True for what has a place in STATE. A model file holds what of it evaluation reads. */
static inline bool d9_exchange_has(const d9_value *value) {
    return value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC;
}

#endif
