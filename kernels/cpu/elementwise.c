/* Element-wise kernels, clipping, batch augmentation and copies on all threads. Work is split at fixed positions, so
 * results do not depend on the number of threads. */
#include "kernels/cpu/items.h"
#include "kernels/cpu/kernels.h"
#include "kernels/formulas/clip.h"

#include <string.h>

enum { D9_PIECE = 1 << 15 }; /* elements; in d9_cpu_copy and d9_cpu_clear, bytes */

#define FOR_PIECES(count) D9_CPU_PIECES(begin, D9_PIECE, count, cpu->threads)

/* Number of rows of `size` elements or bytes that make about one piece. */
static inline int64_t rows_of_piece(int64_t size) { return d9_parts_of(D9_PIECE, size); }

static inline int64_t piece_end(int64_t begin, int64_t count) {
    return count - begin < D9_PIECE ? count : begin + D9_PIECE;
}

void d9_cpu_cast(const d9_cpu *cpu, d9_kernel_in x, int64_t count, d9_kernel_out y) {
    FOR_PIECES(count) cpu->loops->cast(x, y, begin, piece_end(begin, count));
}

void d9_cpu_add(const d9_cpu *cpu, d9_kernel_in a, d9_kernel_in b, int64_t count, d9_kernel_out y) {
    const bool stream = d9_cpu_streams(cpu, count * d9_kernel_store_bytes(y.store));
    FOR_PIECES(count) cpu->loops->add(a, b, stream, y, begin, piece_end(begin, count));
}

void d9_cpu_scale(const d9_cpu *cpu, d9_kernel_in x, float factor, int64_t count, d9_kernel_out y) {
    FOR_PIECES(count) cpu->loops->scale(x, factor, y, begin, piece_end(begin, count));
}

void d9_cpu_copy(const d9_cpu *cpu, const void *x, int64_t bytes, void *y) {
    FOR_PIECES(bytes) memcpy((char *)y + begin, (const char *)x + begin, (size_t)(piece_end(begin, bytes) - begin));
}

void d9_cpu_clear(const d9_cpu *cpu, int64_t bytes, void *y) {
    FOR_PIECES(bytes) memset((char *)y + begin, 0, (size_t)(piece_end(begin, bytes) - begin));
}

void d9_cpu_act_forward(const d9_cpu *cpu, d9_kernel_in x, d9_kernel_act act, int64_t count, d9_kernel_out y) {
    FOR_PIECES(count) cpu->loops->act(x, act, y, begin, piece_end(begin, count));
}

void d9_cpu_act_backward(const d9_cpu *cpu, d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act, int64_t count,
                         d9_kernel_out dx) {
    FOR_PIECES(count) cpu->loops->act_backward(dy, reference, act, dx, begin, piece_end(begin, count));
}

/* Processes the range in pieces, so that the second stage reads the first stage's output from the L1 cache. */
void d9_cpu_prologue_run(const d9_cpu *cpu, const d9_cpu_prologue *prologue, d9_kernel_in dy, int64_t begin,
                         int64_t end) {
    enum { PIECE = 2048 };
    const d9_kernel_in dz = {prologue->dz.data, prologue->dz.store};
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t until = end - at < PIECE ? end : at + PIECE;
        if (prologue->addend.data) cpu->loops->add(dy, prologue->addend, false, prologue->dz, at, until);
        if (prologue->act.activation != D9_KERNEL_NO_ACT)
            cpu->loops->act_backward(prologue->addend.data ? dz : dy, prologue->reference, prologue->act, prologue->dz,
                                     at, until);
    }
}

void d9_cpu_update_group(const d9_cpu *cpu, const d9_cpu_update *rule, const float *g, int64_t count, float *w,
                         float *const state[D9_UPDATE_STATES]) {
    FOR_PIECES(count) cpu->loops->update(rule, g, w, state, begin, piece_end(begin, count));
}

int64_t d9_cpu_clip_scratch_bytes(int64_t count) { return (count + D9_PIECE - 1) / D9_PIECE * (int64_t)sizeof(double); }

void d9_cpu_clip(const d9_cpu *cpu, double share, double most, int64_t count, void *scratch, float *g) {
    double *of_piece = scratch, squares = 0;
    FOR_PIECES(count) cpu->loops->squares(g, begin, piece_end(begin, count), &of_piece[begin / D9_PIECE]);
    for (int64_t p = 0; p * D9_PIECE < count; p++) squares += of_piece[p];
    const float factor = (float)d9_clip_factor(squares, share, most);
    if (factor == 1) return;
    FOR_PIECES(count)
    cpu->loops->scale((d9_kernel_in){g, D9_KERNEL_F32}, factor, (d9_kernel_out){g, D9_KERNEL_F32}, begin,
                      piece_end(begin, count));
}

void d9_cpu_lerp(const d9_cpu *cpu, float ratio, const float *x, int64_t count, float *a) {
    FOR_PIECES(count) cpu->loops->lerp(ratio, x, a, begin, piece_end(begin, count));
}

void d9_cpu_augment(const d9_cpu *cpu, const d9_cpu_batch *batch, int64_t images, d9_kernel_out y) {
    D9_CPU_EACH (n, images, cpu->threads) cpu->loops->augment(batch, n, y);
}

void d9_cpu_mix(const d9_cpu *cpu, d9_kernel_in x, float share, int64_t images, int64_t size, d9_kernel_out y) {
    D9_CPU_EACH (n, images, cpu->threads) cpu->loops->mix(x, share, n * size, (images - 1 - n) * size, size, y);
}

void d9_cpu_paste(const d9_cpu *cpu, d9_kernel_in x, const d9_cpu_box *box, const int64_t *sizes, d9_kernel_out y) {
    const int64_t pixel = sizes[3] * d9_kernel_store_bytes(x.store), row = sizes[2] * pixel, size = sizes[1] * row;
    const char *from = x.data;
    char *to = y.data;
    D9_CPU_EACH (n, sizes[0], cpu->threads) {
        memcpy(to + n * size, from + n * size, (size_t)size);
        for (int64_t h = box->top; h < box->bottom; h++) {
            const int64_t at = h * row + box->left * pixel;
            memcpy(to + n * size + at, from + (sizes[0] - 1 - n) * size + at,
                   (size_t)((box->right - box->left) * pixel));
        }
    }
}

void d9_cpu_dropout(const d9_cpu *cpu, d9_kernel_in x, const d9_dropout *dropout, int64_t count, d9_kernel_out y) {
    FOR_PIECES(count) cpu->loops->dropout(x, dropout, y, begin, piece_end(begin, count));
}

void d9_cpu_copy_blocks(const d9_cpu *cpu, const d9_cpu_block_copy *runs, const void *from, void *to) {
    const int64_t together = rows_of_piece(runs->bytes);
    D9_CPU_EACH (piece, d9_parts_of(runs->count, together), cpu->threads)
        for (int64_t i = piece * together; i < d9_min(runs->count, (piece + 1) * together); i++)
            memcpy((char *)to + i * runs->to_stride, (const char *)from + i * runs->from_stride, (size_t)runs->bytes);
}

/* ---- strips ---- */

void d9_cpu_strip_pack(const d9_cpu *cpu, const d9_cpu_strip *s, const void *x, d9_kernel_store store, void *y) {
    const int64_t pixel = s->channels * d9_kernel_store_bytes(store), row = s->width * pixel, gap = s->gap * pixel;
    D9_CPU_EACH (line, s->images / s->across * s->height, cpu->threads) {
        const int64_t strip = line / s->height, h = line % s->height;
        char *to = (char *)y + line * s->across * (row + gap);
        for (int64_t i = 0; i < s->across; i++, to += row + gap) {
            memcpy(to, (const char *)x + ((strip * s->across + i) * s->height + h) * row, (size_t)row);
            memset(to + row, 0, (size_t)gap);
        }
    }
}

void d9_cpu_strip_unpack(const d9_cpu *cpu, const d9_cpu_strip *s, const void *y, d9_kernel_store store, void *x) {
    const int64_t pixel = s->channels * d9_kernel_store_bytes(store), row = s->width * pixel, gap = s->gap * pixel;
    D9_CPU_EACH (line, s->images / s->across * s->height, cpu->threads) {
        const int64_t strip = line / s->height, h = line % s->height;
        const char *from = (const char *)y + line * s->across * (row + gap);
        for (int64_t i = 0; i < s->across; i++, from += row + gap)
            memcpy((char *)x + ((strip * s->across + i) * s->height + h) * row, from, (size_t)row);
    }
}
