/* A fake of cuBLASLt with plain loops: see fake.h. A product is computed in doubles when the stream reaches it, after
 * the workspace that its algorithm asked for is overwritten. The fake is as strict as cuBLASLt: sizes and types must
 * fit, memory must be the device's and aligned, and an algorithm that was never submitted cannot be captured, because
 * its code is loaded at the first run. */
#include <cublasLt.h>

#include "tests/cuda_backend/fake_state.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_BYTES = 192 << 10, WORKSPACE_ALIGNMENT = 256, ALGORITHMS = 256 };

struct cublasLtContext {
    char unused;
};
struct cublasLtMatmulDescOpaque_t {
    cublasOperation_t a, b;
    cublasComputeType_t compute;
    cublasLtEpilogue_t epilogue;
    const float *bias;
};
struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType_t type;
    int64_t rows, columns, ld, stride; /* stored column by column */
    int32_t batch;
};
struct cublasLtMatmulPreferenceOpaque_t {
    uint64_t workspace_limit;              /* workspace bytes */
    uint32_t reduction_schemes, alignment; /* a mask; the alignment set last, of any of the matrices */
};
typedef struct cublasLtMatrixLayoutOpaque_t layout;

static bool loaded[ALGORITHMS]; /* by number: true if the algorithm was submitted before */

static void *make_descriptor(size_t bytes) {
    d9_fake_get()->counts.live_descriptors++;
    return calloc(1, bytes);
}

static cublasStatus_t destroy_descriptor(void *made) {
    d9_fake_get()->counts.live_descriptors--;
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}

/* Sets an attribute of `size` bytes; rejects a value of another size. */
static cublasStatus_t set_attribute(void *attribute, size_t size, const void *value, size_t bytes) {
    if (!attribute || bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(attribute, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    if (d9_fake_get()->without_cublas || d9_fake_capturing()) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    d9_fake_get()->counts.live_handles++;
    d9_fake_get()->counts.libraries++;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    d9_fake_get()->counts.live_handles--;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_INITIALIZED ? "NOT_INITIALIZED"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "INVALID_VALUE"
                                                   : "NOT_SUPPORTED";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *operation = make_descriptor(sizeof **operation);
    (*operation)->compute = compute;
    (*operation)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { return destroy_descriptor(operation); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
        return set_attribute(&operation->epilogue, sizeof operation->epilogue, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        return set_attribute(&operation->bias, sizeof operation->bias, value, bytes);
    return set_attribute(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &operation->a : &operation->b, sizeof operation->a,
                         value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    if (ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    *made = make_descriptor(sizeof **made);
    **made = (layout){type, (int64_t)rows, (int64_t)columns, ld, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) { return destroy_descriptor(made); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t made, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        return set_attribute(&made->batch, sizeof made->batch, value, bytes);
    return set_attribute(&made->stride, sizeof made->stride, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    *preference = make_descriptor(sizeof **preference);
    (*preference)->reduction_schemes = 7;
    (*preference)->alignment = 256;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy_descriptor(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set_attribute(&preference->workspace_limit, sizeof preference->workspace_limit, value, bytes);
    if (attribute != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return set_attribute(&preference->alignment, sizeof preference->alignment, value, bytes);
    return set_attribute(&preference->reduction_schemes, sizeof preference->reduction_schemes, value, bytes);
}

typedef struct work { /* a queued product */
    struct cublasLtMatmulDescOpaque_t operation;
    layout a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d, *workspace;
    float alpha, beta;
} work;

/* Reduction length; 0: the sizes or types do not fit. */
static int64_t depth_of(const work *w) {
    const layout *const all[] = {&w->a_layout, &w->b_layout, &w->c_layout, &w->d_layout};
    const bool ta = w->operation.a == CUBLAS_OP_T, tb = w->operation.b == CUBLAS_OP_T;
    const layout *a = all[0], *b = all[1], *d = all[3];
    for (int i = 0; i < 4; i++)
        if (all[i]->type != (i < 2 ? a->type : d->type) || all[i]->batch != d->batch ||
            (d->batch > 1 && all[i]->stride < all[i]->ld * all[i]->columns))
            return 0;
    if ((d->type != a->type && d->type != CUDA_R_32F) ||
        (w->operation.compute != CUBLAS_COMPUTE_32F && a->type != CUDA_R_32F) ||
        memcmp(&w->c_layout, d, sizeof *d) != 0 || (ta ? a->columns : a->rows) != d->rows ||
        (tb ? b->rows : b->columns) != d->columns || (ta ? a->rows : a->columns) != (tb ? b->columns : b->rows))
        return 0;
    return ta ? a->rows : a->columns;
}

/* Never offers an algorithm whose results depend on the order in which blocks finish, but counts the offers to requests
 * that would allow one. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *count) {
    static uint64_t asked;
    const work w = {.operation = *operation, .a_layout = *a, .b_layout = *b, .c_layout = *c, .d_layout = *d};
    d9_fake *fake = d9_fake_get();
    *count = 0;
    if (!handle || requested < 1 || depth_of(&w) == 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (fake->without_products == 2) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (preference->workspace_limit < WORKSPACE_BYTES || fake->without_products)
        return CUBLAS_STATUS_SUCCESS; /* with no result */
    fake->counts.unsteady_products += (preference->reduction_schemes & ~2u) != 0;
    results[0] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = WORKSPACE_BYTES, .state = CUBLAS_STATUS_SUCCESS};
    results[0].algo.data[0] = asked++ % ALGORITHMS;
    results[0].algo.data[1] = preference->alignment;
    loaded[results[0].algo.data[0]] = false;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static d9_type type_of(cudaDataType_t type) {
    return type == CUDA_R_32F ? D9_F32 : type == CUDA_R_16BF ? D9_BF16 : D9_F16;
}

static double sum_of(const work *w, int64_t depth, int64_t matrix, int64_t i, int64_t j) {
    const layout *a = &w->a_layout, *b = &w->b_layout;
    const bool rounds = w->operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && d9_fake_get()->tensor_cores;
    double sum = 0;
    for (int64_t k = 0; k < depth; k++) {
        const double p = d9_fake_load(type_of(a->type), w->a,
                                      matrix * a->stride + (w->operation.a ? k + i * a->ld : i + k * a->ld)),
                     q = d9_fake_load(type_of(b->type), w->b,
                                      matrix * b->stride + (w->operation.b ? j + k * b->ld : k + j * b->ld));
        sum += rounds ? d9_fake_tf32(p) * d9_fake_tf32(q) : p * q;
    }
    return sum;
}

static bool is_biased(const work *w) { return w->operation.epilogue == CUBLASLT_EPILOGUE_BIAS; }

static int run_product(const void *what) {
    const work *w = what;
    const layout *d = &w->d_layout;
    const int64_t depth = depth_of(w);
    d9_fake_get()->counts.products++;
    d9_fake_get()->counts.matrices += d->batch;
    d9_fake_get()->product = (d9_fake_product){d->rows, d->columns, depth, d->batch};
    d9_fake_advance_time(5e-6);
    d9_fake_note_change();
    memset(w->workspace, 0xff, WORKSPACE_BYTES);
    for (int64_t m = 0; m < d->batch; m++)
        for (int64_t j = 0; j < d->columns; j++)
            for (int64_t i = 0; i < d->rows; i++) {
                const int64_t at = m * d->stride + i + j * d->ld;
                const double old = w->beta != 0 ? (double)w->beta * d9_fake_load(type_of(d->type), w->c, at) : 0;
                double y = (double)w->alpha * sum_of(w, depth, m, i, j) + old;
                if (is_biased(w)) y = (double)((float)y + w->operation.bias[i]); /* the sum is in f32 */
                d9_fake_store(type_of(d->type), w->d, at, y);
            }
    return 0;
}

/* True if the matrices are in device memory and aligned. */
static bool is_device_memory(const layout *l, const void *data, uint64_t alignment) {
    const int64_t count = (l->batch - 1) * l->stride + l->ld * l->columns;
    return (uintptr_t)data % alignment == 0 && d9_fake_holds(data, count * (l->type == CUDA_R_32F ? 4 : 2));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    const bool capturing = d9_fake_capturing();
    work w = {*operation, *a_layout, *b_layout, *c_layout, *d_layout, a, b, c, d, workspace, 0, 0};
    memcpy(&w.alpha, alpha, sizeof w.alpha);
    memcpy(&w.beta, beta, sizeof w.beta);
    if (!handle || depth_of(&w) == 0 || a == d || b == d || !is_device_memory(a_layout, a, algo->data[1]) ||
        !is_device_memory(b_layout, b, algo->data[1]) || !is_device_memory(c_layout, c, algo->data[1]) ||
        !is_device_memory(d_layout, d, algo->data[1]) || workspace_bytes < WORKSPACE_BYTES ||
        (uintptr_t)workspace % WORKSPACE_ALIGNMENT || !d9_fake_holds(workspace, (int64_t)workspace_bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (is_biased(&w) && (d_layout->type != CUDA_R_32F || (uintptr_t)w.operation.bias % 16 != 0 ||
                          !d9_fake_holds(w.operation.bias, 4 * d_layout->rows)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (capturing && !loaded[algo->data[0]]) return CUBLAS_STATUS_NOT_SUPPORTED;
    loaded[algo->data[0]] = true;
    d9_fake_get()->counts.captured_products += capturing;
    return d9_model_submit(stream, run_product, &w, sizeof w) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
