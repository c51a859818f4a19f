/* oneDNN 2 describes arrays and operations by structs, from which primitive descriptions are made. In oneDNN 3 arrays
 * are described by objects that must be destroyed, and primitive descriptions are made without such structs. The two
 * blocks below define the same functions. */
#include "backends/onednn/dnnl.h"

#if DNNL_VERSION_MAJOR == 2

typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_view;

static layout_view view(const layout *l) { return l; }
static dnnl_status_t make_layout(const d9_dnnl_array *a, layout *l) {
    return dnnl_memory_desc_init_by_tag(l, a->rank, a->sizes, a->type, a->tag);
}
static void destroy_layout(layout *l) { (void)l; }

static dnnl_status_t describe_conv(dnnl_engine_t engine, dnnl_prop_kind_t pass, const d9_dnnl_conv *c, layout_view x,
                                   layout_view w, layout_view y, const_dnnl_primitive_attr_t attributes,
                                   const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *description) {
    dnnl_convolution_desc_t desc;
    dnnl_status_t status;
    if (pass == dnnl_backward_data)
        status = dnnl_convolution_backward_data_desc_init(&desc, c->algorithm, x, w, y, c->strides, c->pads, c->pads);
    else if (pass == dnnl_backward_weights)
        status = dnnl_convolution_backward_weights_desc_init(&desc, c->algorithm, x, w, NULL, y, c->strides, c->pads,
                                                             c->pads);
    else
        status =
            dnnl_convolution_forward_desc_init(&desc, pass, c->algorithm, x, w, NULL, y, c->strides, c->pads, c->pads);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(description, &desc, attributes, engine, forward);
}

static dnnl_status_t describe_product(dnnl_engine_t engine, layout_view matrix, dnnl_primitive_desc_t *description) {
    dnnl_matmul_desc_t desc;
    const dnnl_status_t status = dnnl_matmul_desc_init(&desc, matrix, matrix, NULL, matrix);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(description, &desc, NULL, engine, NULL);
}

#else

typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_view;

static layout_view view(const layout *l) { return *l; }
static dnnl_status_t make_layout(const d9_dnnl_array *a, layout *l) {
    return dnnl_memory_desc_create_with_tag(l, a->rank, a->sizes, a->type, a->tag);
}
static void destroy_layout(layout *l) {
    if (*l) dnnl_memory_desc_destroy(*l);
}

static dnnl_status_t describe_conv(dnnl_engine_t engine, dnnl_prop_kind_t pass, const d9_dnnl_conv *c, layout_view x,
                                   layout_view w, layout_view y, const_dnnl_primitive_attr_t attributes,
                                   const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *description) {
    const dnnl_dims_t dense = {0};
    if (pass == dnnl_backward_data)
        return dnnl_convolution_backward_data_primitive_desc_create(
            description, engine, c->algorithm, x, w, y, c->strides, dense, c->pads, c->pads, forward, attributes);
    if (pass == dnnl_backward_weights)
        return dnnl_convolution_backward_weights_primitive_desc_create(
            description, engine, c->algorithm, x, w, NULL, y, c->strides, dense, c->pads, c->pads, forward, attributes);
    return dnnl_convolution_forward_primitive_desc_create(description, engine, pass, c->algorithm, x, w, NULL, y,
                                                          c->strides, dense, c->pads, c->pads, attributes);
}

static dnnl_status_t describe_product(dnnl_engine_t engine, layout_view matrix, dnnl_primitive_desc_t *description) {
    return dnnl_matmul_primitive_desc_create(description, engine, matrix, matrix, NULL, matrix, NULL);
}

#endif

dnnl_status_t d9_dnnl_describe_conv(dnnl_engine_t engine, dnnl_prop_kind_t pass, const d9_dnnl_conv *conv,
                                    const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t forward,
                                    dnnl_primitive_desc_t *description) {
    layout x = {0}, w = {0}, y = {0};
    dnnl_status_t status = make_layout(&conv->x, &x);
    if (status == dnnl_success) status = make_layout(&conv->w, &w);
    if (status == dnnl_success) status = make_layout(&conv->y, &y);
    if (status == dnnl_success)
        status = describe_conv(engine, pass, conv, view(&x), view(&w), view(&y), attributes, forward, description);
    destroy_layout(&x);
    destroy_layout(&w);
    destroy_layout(&y);
    return status;
}

dnnl_status_t d9_dnnl_describe_product(dnnl_engine_t engine, const d9_dnnl_array *matrix,
                                       dnnl_primitive_desc_t *description) {
    layout l = {0};
    dnnl_status_t status = make_layout(matrix, &l);
    if (status == dnnl_success) status = describe_product(engine, view(&l), description);
    destroy_layout(&l);
    return status;
}

dnnl_status_t d9_dnnl_memory_make(dnnl_engine_t engine, const d9_dnnl_array *array, void *data, dnnl_memory_t *memory) {
    layout l = {0};
    dnnl_status_t status = make_layout(array, &l);
    if (status == dnnl_success) status = dnnl_memory_create(memory, view(&l), engine, data);
    destroy_layout(&l);
    return status;
}

static layout_view layout_of(const_dnnl_memory_t memory) {
    layout_view l = NULL;
    dnnl_memory_get_memory_desc(memory, &l); /* fails only if `memory` is NULL */
    return l;
}

size_t d9_dnnl_memory_bytes(const_dnnl_memory_t memory) { return dnnl_memory_desc_get_size(layout_of(memory)); }

bool d9_dnnl_memories_equal(const_dnnl_memory_t a, const_dnnl_memory_t b) {
    return dnnl_memory_desc_equal(layout_of(a), layout_of(b));
}

dnnl_status_t d9_dnnl_reorder_make(dnnl_engine_t engine, const_dnnl_memory_t from, const_dnnl_memory_t to,
                                   dnnl_primitive_t *reorder) {
    dnnl_primitive_desc_t description;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&description, layout_of(from), engine, layout_of(to), engine, NULL);
    if (status != dnnl_success) return status;
    status = dnnl_primitive_create(reorder, description);
    dnnl_primitive_desc_destroy(description);
    return status;
}
