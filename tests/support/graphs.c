/* Building, running and comparing op cases; the contract is in graphs.h, the table of cases in specs.c. */
#include "core/system.h"
#include "kernels/formulas/half.h"
#include "kernels/formulas/philox.h"
#include "tests/support/graphs.h"
#include "tests/support/test.h"

enum { GUARD_BYTES = 64, GUARD = 0xa5, MAX_VALUES = 64 };

static void *allocate(op_case *c, int64_t bytes) {
    void *memory;
    test_ok(c->context, d9_allocate(c->context, (size_t)bytes, "a test", &memory));
    return memory;
}

void op_case_begin(op_case *c, d9_context *context, const char *name, d9_type compute, d9_type master, op_fill fill) {
    *c = (op_case){.context = context, .seed = 1, .fill = fill, .compute = compute, .master = master};
    snprintf(c->name, sizeof c->name, "%s", name);
    c->graph = &c->program.train;
    c->program.steps_per_epoch = 1;
    for (int p = 0; p < D9_PRECISIONS && !c->program.precision; p++)
        if (d9_precision_at(p)->compute == compute)
            c->program.precision = d9_precision_at(p); /* the first with this type: f32, not tf32 */
    d9_graph_init(&c->program.train);
    d9_graph_init(&c->program.eval);
    c->content = allocate(c, MAX_VALUES * (int64_t)sizeof(double *));
}

void op_case_free(op_case *c) {
    for (int v = 0; v < c->graph->value_count; v++) d9_release(c->context, c->content[v]);
    d9_release(c->context, c->content), d9_program_free(c->context, &c->program);
}

int64_t op_count(const op_case *c, d9_value_id value) { return d9_shape_count(&c->graph->values[value].shape); }

double op_round(d9_type type, double x) {
    if (type == D9_BF16) return (double)d9_bf16_to_float(d9_bf16_from_double(x));
    if (type == D9_F16) return (double)d9_fp16_to_float(d9_fp16_from_double(x));
    return type == D9_F32 ? (double)(float)x : x;
}

d9_value_id op_output(op_case *c, const char *name, d9_buffer buffer, d9_type type, d9_shape shape) {
    d9_value value = {.kind = D9_VALUE_STORED, .type = type, .shape = shape, .producer = D9_NONE, .buffer = buffer};
    d9_value_id id;
    int64_t *end = &c->program.buffer_bytes[buffer];
    if (buffer == D9_BUFFER_SCRATCH) value.kind = D9_VALUE_ACTIVATION;
    assert_true(c->graph->value_count < MAX_VALUES);
    snprintf(value.name, sizeof value.name, "%s", name);
    value.offset = *end + GUARD_BYTES;
    *end = (value.offset + d9_shape_count(&shape) * (int64_t)d9_type_bytes(type) + 63) / 64 * 64 + GUARD_BYTES;
    test_ok(c->context, d9_graph_add_value(c->context, c->graph, &value, &id));
    return id;
}

d9_value_id op_input(op_case *c, const char *name, d9_buffer buffer, d9_type type, d9_shape shape, double low,
                     double high) {
    d9_value_id id = op_output(c, name, buffer, type, shape);
    bool whole = c->fill == OP_FILL_INTEGER || type == D9_I32 || type == D9_U8;
    double *content = c->content[id] = allocate(c, op_count(c, id) * (int64_t)sizeof(double));
    for (int64_t i = 0; i < op_count(c, id); i++) {
        uint32_t word = d9_philox4x32_10(c->seed, (uint32_t)i, (uint32_t)id, 77, 0).v[0];
        double first = ceil(low), last = floor(high);
        content[i] = whole ? first + d9_philox_below(word, (uint32_t)(last - first + 1))
                           : op_round(type, low + (high - low) * d9_philox_unit(word));
    }
    return id;
}

d9_value_id op_with_content(op_case *c, const char *name, d9_type type, d9_shape shape, const double *content) {
    const d9_value_id id = op_input(c, name, D9_BUFFER_SCRATCH, type, shape, 0, 1);
    memcpy(c->content[id], content, (size_t)op_count(c, id) * sizeof *content);
    return id;
}

void op_node(op_case *c, const d9_node *node) {
    d9_node copy = *node;
    if (!*copy.role) snprintf(copy.role, sizeof copy.role, "%.60s", c->name);
    test_ok(c->context, d9_graph_add_node(c->context, c->graph, &copy));
}

static void pack(d9_type type, double x, void *to) {
    if (type == D9_F64)
        *(double *)to = x;
    else if (type == D9_F32)
        *(float *)to = (float)x;
    else if (type == D9_BF16)
        *(uint16_t *)to = d9_bf16_from_double(x);
    else if (type == D9_F16)
        *(uint16_t *)to = d9_fp16_from_double(x);
    else if (type == D9_I32)
        *(int32_t *)to = (int32_t)x;
    else
        *(uint8_t *)to = (uint8_t)x;
}

static double unpack(d9_type type, const void *from) {
    if (type == D9_F64) return *(const double *)from;
    if (type == D9_F32) return (double)*(const float *)from;
    if (type == D9_BF16) return (double)d9_bf16_to_float(*(const uint16_t *)from);
    if (type == D9_F16) return (double)d9_fp16_to_float(*(const uint16_t *)from);
    return type == D9_I32 ? (double)*(const int32_t *)from : (double)*(const uint8_t *)from;
}

/* Fills a buffer with guard bytes, and the values in it with bytes 0xff, which are NaN in floats. */
static void write_blank(op_open_case *live, d9_buffer buffer) {
    op_case *c = live->c;
    int64_t size = c->program.buffer_bytes[buffer];
    uint8_t *bytes = allocate(c, size);
    memset(bytes, GUARD, (size_t)size);
    for (int v = 0; v < c->graph->value_count; v++) {
        const d9_value *value = &c->graph->values[v];
        if (value->buffer == buffer)
            memset(bytes + value->offset, 0xff, (size_t)op_count(c, v) * d9_type_bytes(value->type));
    }
    test_ok(c->context, live->backend->write(c->context, live->device, buffer, 0, bytes, size));
    d9_release(c->context, bytes);
}

void op_open(op_open_case *live, op_case *c, const d9_backend *backend, const d9_backend_options *options) {
    static const d9_backend_options plain = {.threads = 1, .fuse = true};
    *live = (op_open_case){.c = c, .backend = backend};
    test_ok(c->context, backend->open(c->context, options ? options : &plain, &live->device));
    test_ok(c->context, backend->allocate(c->context, live->device, &c->program));
    test_ok(c->context, backend->plan(c->context, live->device, &c->program, c->graph, &live->plan));
    for (int b = 0; b < D9_BUFFER_COUNT; b++)
        if (c->program.buffer_bytes[b] > 0 && b != D9_BUFFER_GUARD) write_blank(live, (d9_buffer)b);
    for (int v = 0; v < c->graph->value_count; v++)
        if (c->content[v]) op_write(live, v, c->content[v]);
}

void op_write(op_open_case *live, d9_value_id id, const double *doubles) {
    op_case *c = live->c;
    const d9_value *value = &c->graph->values[id];
    int64_t count = op_count(c, id), size = (int64_t)d9_type_bytes(value->type);
    uint8_t *bytes = allocate(c, count * size);
    for (int64_t i = 0; i < count; i++) pack(value->type, doubles[i], bytes + i * size);
    test_ok(c->context,
            live->backend->write(c->context, live->device, value->buffer, value->offset, bytes, count * size));
    d9_release(c->context, bytes);
}

void op_step(op_open_case *live, int64_t step) {
    test_ok(live->c->context, live->backend->run(live->c->context, live->plan, step));
    test_ok(live->c->context, live->backend->sync(live->c->context, live->device));
}

void op_read(op_open_case *live, d9_value_id id, double *doubles) {
    op_case *c = live->c;
    const d9_value *value = &c->graph->values[id];
    int64_t count = op_count(c, id), size = (int64_t)d9_type_bytes(value->type);
    uint8_t *bytes = allocate(c, count * size);
    test_ok(c->context,
            live->backend->read(c->context, live->device, value->buffer, value->offset, bytes, count * size));
    for (int64_t i = 0; i < count; i++) doubles[i] = unpack(value->type, bytes + i * size);
    d9_release(c->context, bytes);
}

static void check_buffer(op_open_case *live, d9_buffer buffer) {
    op_case *c = live->c;
    int64_t size = c->program.buffer_bytes[buffer];
    uint8_t *bytes = allocate(c, size);
    test_ok(c->context, live->backend->read(c->context, live->device, buffer, 0, bytes, size));
    for (int v = 0; v < c->graph->value_count; v++) {
        const d9_value *value = &c->graph->values[v];
        if (value->buffer == buffer)
            memset(bytes + value->offset, GUARD, (size_t)op_count(c, v) * d9_type_bytes(value->type));
    }
    for (int64_t i = 0; i < size; i++)
        if (bytes[i] != GUARD)
            fail_msg("%s: guard byte %lld of %s was overwritten", c->name, (long long)i, d9_buffer_name(buffer));
    d9_release(c->context, bytes);
}

void op_check_guards(op_open_case *live) {
    for (int b = 0; b < D9_BUFFER_COUNT; b++)
        if (live->c->program.buffer_bytes[b] > 0 && b != D9_BUFFER_GUARD) check_buffer(live, (d9_buffer)b);
}

void op_close(op_open_case *live) {
    op_check_guards(live);
    live->backend->plan_free(live->c->context, live->plan);
    live->backend->close(live->c->context, live->device);
}

double op_error(const double *got, const double *want, int64_t count) {
    double difference = 0, norm = 0;
    int64_t zeros = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
        zeros += want[i] == 0;
    }
    return count == 0 || zeros * 10 > count * 9 ? NAN : sqrt(difference / norm);
}

int64_t op_differences(const double *got, const double *want, int64_t count) {
    int64_t differences = 0;
    for (int64_t i = 0; i < count; i++) differences += !(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])));
    return differences;
}
