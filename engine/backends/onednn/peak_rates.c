/* Measures the rate of oneDNN's matrix product. */
#include "backends/onednn/onednn.h"
#include "backends/onednn/dnnl.h"
#include "core/system.h"

enum { SIDE = 2048, TRIES = 5 };

typedef struct product {
    dnnl_memory_t memory[3];
    dnnl_primitive_t primitive;
    uint8_t *matrices; /* three matrices of SIDE * SIDE */
} product;

static const int argument_names[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};

static void destroy(d9_context *context, product *p) {
    for (int i = 0; i < 3; i++)
        if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    d9_release(context, p->matrices);
}

#define DNNL_TRY(call) D9_TRY(d9_onednn_check(context, NULL, (call)))

/* Builds the product; leaves its primitive NULL if the library does not multiply this type on this processor. */
static d9_status build(d9_context *context, const d9_onednn *backend, d9_type type, product *p) {
    d9_status status = D9_OK;
    const d9_dnnl_array matrix = {2, {SIDE, SIDE}, type == D9_BF16 ? dnnl_bf16 : dnnl_f32, dnnl_ab};
    const size_t bytes = (size_t)SIDE * SIDE * d9_type_bytes(type);
    dnnl_primitive_desc_t description = NULL;
    const dnnl_status_t described = d9_dnnl_describe_product(backend->engine, &matrix, &description);
    if (described == dnnl_unimplemented) return D9_OK;
    DNNL_TRY(described);
    DNNL_TRY(dnnl_primitive_create(&p->primitive, description));
    D9_TRY(D9_ALLOCATE(context, 3 * bytes, "matrices to time", &p->matrices));
    for (int i = 0; i < 3; i++)
        DNNL_TRY(d9_dnnl_memory_make(backend->engine, &matrix, p->matrices + (size_t)i * bytes, &p->memory[i]));
done:
    if (description) dnnl_primitive_desc_destroy(description);
    return status;
}

static d9_status multiply(d9_context *context, const d9_onednn *backend, const product *p) {
    d9_status status;
    dnnl_exec_arg_t arguments[3];
    for (int i = 0; i < 3; i++) arguments[i] = (dnnl_exec_arg_t){argument_names[i], p->memory[i]};
    DNNL_TRY(dnnl_primitive_execute(p->primitive, backend->stream, 3, arguments));
    DNNL_TRY(dnnl_stream_wait(backend->stream));
done:
    return status;
}

d9_status d9_onednn_matrix_rate(d9_context *context, void *state, d9_type type, double *rate) {
    d9_status status;
    const d9_onednn *backend = state;
    product p = {{NULL}, NULL, NULL};
    *rate = 0;
    D9_TRY(build(context, backend, type, &p));
    if (!p.primitive) goto done;
    D9_TRY(multiply(context, backend, &p));
    for (int i = 0; i < TRIES; i++) {
        const double start = d9_clock_now();
        D9_TRY(multiply(context, backend, &p));
        const double here = 2.0 * SIDE * SIDE * SIDE / (d9_clock_now() - start);
        if (here > *rate) *rate = here;
    }
done:
    destroy(context, &p);
    return status;
}
