/* Products by cuBLASLt, which reads matrices column by column: it sees ours transposed and computes y' = op(b)' op(a)',
 * where ' is the transpose.
 *
 * Each product runs the first algorithm of the heuristics that fits our workspace. The reduction may be split if a
 * second kernel adds the partial sums in f32 in a fixed order, so results repeat bit for bit. A product without such an
 * algorithm is computed by our own, slower kernel. */
#include "backends/cuda/cuda.h"
#include "backends/cuda/library.h"
#include "core/system.h"

#include <cublasLt.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#ifndef D9_CUBLAS_LIBRARY /* tests name a fake library instead */
#define D9_CUBLAS_LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)
#endif

enum { MOST_WORKSPACE_BYTES = 32 << 20, ALIGNMENT = 64 };
enum { A, B, Y, MATRICES }; /* as in d9_cuda_product */

#define FUNCTIONS(f)                                                                                                   \
    f(Create) f(Destroy) f(GetStatusString) f(Matmul) f(MatmulAlgoGetHeuristic) f(MatmulDescCreate)                    \
        f(MatmulDescDestroy) f(MatmulDescSetAttribute) f(MatmulPreferenceCreate) f(MatmulPreferenceDestroy)            \
            f(MatmulPreferenceSetAttribute) f(MatrixLayoutCreate) f(MatrixLayoutDestroy) f(MatrixLayoutSetAttribute)

typedef struct cublas {
    void *library;
    cublasLtHandle_t handle;
#define DECLARE(name) __typeof__(cublasLt##name) *name;
    FUNCTIONS(DECLARE)
} cublas;

typedef struct plan {
    d9_cuda_product product;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layout[MATRICES];
    cublasLtMatmulHeuristicResult_t found;
    bool uses_own_kernel; /* cuBLAS has no algorithm: our kernel computes it */
} plan;

static d9_status check(d9_context *context, const cublas *lt, cublasStatus_t result, const char *what) {
    if (result == CUBLAS_STATUS_SUCCESS) return D9_OK;
    return d9_fail(context, D9_DEVICE, "cuBLAS: %s: %s", what, lt->GetStatusString(result));
}

#define CUBLAS_TRY(call, what) D9_TRY(check(context, lt, (call), what))

/* ---- loading ---- */

static void close_multiplier(d9_context *context, void *multiplier) {
    cublas *lt = multiplier;
    if (!lt) return;
    if (lt->handle) lt->Destroy(lt->handle);
    if (lt->library) dlclose(lt->library);
    d9_release(context, lt);
}

static d9_status open_multiplier(d9_context *context, void **multiplier) {
    d9_status status;
    cublas *lt = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "cuBLAS", &lt));
    *lt = (cublas){.library = dlopen(D9_CUBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!lt->library)
        D9_TRY(d9_fail(context, D9_DEVICE, "cuBLAS, which this network needs, cannot be loaded: %s", dlerror()));
#define LOAD(name)                                                                                                     \
    D9_TRY(d9_cuda_library_find(context, "cuBLAS", D9_CUBLAS_LIBRARY, lt->library, "cublasLt" #name, &lt->name));
    FUNCTIONS(LOAD)
    CUBLAS_TRY(lt->Create(&lt->handle), "opening it");
    *multiplier = lt;
    lt = NULL;
done:
    close_multiplier(context, lt);
    return status;
}

/* ---- plans ---- */

static void free_plan(d9_context *context, const void *multiplier, void *made) {
    const cublas *lt = multiplier;
    plan *p = made;
    if (!p) return;
    for (int m = 0; m < MATRICES; m++)
        if (p->layout[m]) lt->MatrixLayoutDestroy(p->layout[m]);
    if (p->operation) lt->MatmulDescDestroy(p->operation);
    d9_release(context, p);
}

static cudaDataType_t data_type(d9_type type) {
    return type == D9_BF16 ? CUDA_R_16BF : type == D9_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* Describes a batch of matrices of `rows` rows, stored row by row. */
static d9_status make_layout(d9_context *context, const cublas *lt, const d9_cuda_product *product, d9_type type,
                             int64_t rows, int64_t columns, int64_t stride, cublasLtMatrixLayout_t *made) {
    d9_status status;
    const int32_t batch = (int32_t)product->batch;
    CUBLAS_TRY(lt->MatrixLayoutCreate(made, data_type(type), (uint64_t)columns, (uint64_t)rows, columns), "a matrix");
    CUBLAS_TRY(lt->MatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
               "the number of matrices");
    CUBLAS_TRY(lt->MatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
               "the distance of matrices");
done:
    return status;
}

static d9_status describe_product(d9_context *context, const cublas *lt, plan *p) {
    d9_status status;
    const d9_cuda_product *q = &p->product;
    const cublasOperation_t op_a = q->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_b = q->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
    const cublasComputeType_t compute = q->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    CUBLAS_TRY(lt->MatmulDescCreate(&p->operation, compute, CUDA_R_32F), "a product");
    CUBLAS_TRY(lt->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof op_b), "a product");
    CUBLAS_TRY(lt->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof op_a), "a product");
    if (q->biased) /* cuBLAS adds element i to row i of y', our column i */
        CUBLAS_TRY(
            lt->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias, sizeof with_bias),
            "a bias");
    D9_TRY(make_layout(context, lt, q, q->type, q->a_transposed ? q->depth : q->rows,
                       q->a_transposed ? q->rows : q->depth, q->a_stride, &p->layout[A]));
    D9_TRY(make_layout(context, lt, q, q->type, q->b_transposed ? q->columns : q->depth,
                       q->b_transposed ? q->depth : q->columns, q->b_stride, &p->layout[B]));
    D9_TRY(make_layout(context, lt, q, q->y_type, q->rows, q->columns, q->y_stride, &p->layout[Y]));
done:
    return status;
}

static d9_status find_algorithm(d9_context *context, const cublas *lt, plan *p) {
    d9_status status;
    const uint64_t most = MOST_WORKSPACE_BYTES;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                   alignment = ALIGNMENT;
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreference_t preference = NULL;
    const cublasLtMatrixLayout_t *m = p->layout;
    int count = 0;
    CUBLAS_TRY(lt->MatmulPreferenceCreate(&preference), "an algorithm");
    CUBLAS_TRY(
        lt->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
        "an algorithm");
    CUBLAS_TRY(
        lt->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums),
        "an algorithm");
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        CUBLAS_TRY(lt->MatmulPreferenceSetAttribute(preference, aligned[i], &alignment, sizeof alignment),
                   "an algorithm");
    const cublasStatus_t result =
        lt->MatmulAlgoGetHeuristic(lt->handle, p->operation, m[B], m[A], m[Y], m[Y], preference, 1, &p->found, &count);
    if (result != CUBLAS_STATUS_NOT_SUPPORTED) CUBLAS_TRY(result, "an algorithm");
    p->uses_own_kernel = result != CUBLAS_STATUS_SUCCESS || count == 0 || p->found.state != CUBLAS_STATUS_SUCCESS;
    if (p->uses_own_kernel) {
        const d9_cuda_product *q = &p->product;
        p->found.workspaceSize = 0;
        d9_log(context, D9_LOG_WARNING,
               "cuBLAS has no algorithm for a %lldx%lld product of %s over %lld terms: a slower kernel computes it",
               (long long)q->rows, (long long)q->columns, d9_type_name(q->type), (long long)q->depth);
    }
done:
    if (preference) lt->MatmulPreferenceDestroy(preference);
    return status;
}

static d9_status make_plan(d9_context *context, void **multiplier, const d9_cuda_product *product, void **made,
                           int64_t *workspace_bytes) {
    d9_status status = D9_OK;
    plan *p = NULL;
    *made = NULL;
    if (!*multiplier) D9_TRY(open_multiplier(context, multiplier));
    D9_TRY(D9_ALLOCATE(context, 1, "a product", &p));
    *p = (plan){.product = *product};
    D9_TRY(describe_product(context, *multiplier, p));
    D9_TRY(find_algorithm(context, *multiplier, p));
    *workspace_bytes = (int64_t)p->found.workspaceSize;
    *made = p;
    p = NULL;
done:
    free_plan(context, *multiplier, p);
    return status;
}

/* ---- running ---- */

static d9_status run_own(d9_context *context, const d9_cuda_product *q, const d9_cuda_matrices *matrices,
                         d9_cuda_stream stream) {
    const d9_cuda_matrix_product shape = {.batch = q->batch,
                                          .rows = q->rows,
                                          .columns = q->columns,
                                          .depth = q->depth,
                                          .a_transposed = q->a_transposed,
                                          .b_transposed = q->b_transposed,
                                          .a_stride = q->a_stride,
                                          .b_stride = q->b_stride,
                                          .y_stride = q->y_stride,
                                          .alpha = q->alpha,
                                          .beta = q->beta};
    const d9_kernel_store store = d9_cuda_store_of(q->type);
    const int error = d9_cuda_multiply(stream, &shape, (d9_kernel_in){matrices->a, store},
                                       (d9_kernel_in){matrices->b, store}, matrices->c ? matrices->c : matrices->y,
                                       matrices->bias, (d9_kernel_out){matrices->y, d9_cuda_store_of(q->y_type)});
    return error ? d9_fail(context, D9_DEVICE, "a product: CUDA error %d", error) : D9_OK;
}

static d9_status run(d9_context *context, const void *multiplier, const void *made, const d9_cuda_matrices *matrices,
                     void *workspace, d9_cuda_stream stream) {
    const cublas *lt = multiplier;
    const plan *p = made;
    const cublasLtMatrixLayout_t *m = p->layout;
    const void *c = matrices->c ? matrices->c : matrices->y;
    d9_status status;
    if (p->uses_own_kernel) return run_own(context, &p->product, matrices, stream);
    if (p->product.biased)
        CUBLAS_TRY(lt->MatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &matrices->bias,
                                              sizeof matrices->bias),
                   "a bias");
    CUBLAS_TRY(lt->Matmul(lt->handle, p->operation, &p->product.alpha, matrices->b, m[B], matrices->a, m[A],
                          &p->product.beta, c, m[Y], matrices->y, m[Y], &p->found.algo, workspace,
                          p->found.workspaceSize, stream),
               "a product");
done:
    return status;
}

/* Appends the version at compile time, because the library may never be loaded. */
static void describe(d9_device_info *info) {
    const size_t used = strlen(info->version);
    snprintf(info->version + used, sizeof info->version - used, ", cuBLAS %d.%d.%d", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR,
             CUBLAS_VER_PATCH);
}

const d9_cuda_multiplier d9_cuda_cublas = {
    .describe = describe, .close = close_multiplier, .plan = make_plan, .free_plan = free_plan, .run = run};
