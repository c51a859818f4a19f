/* Patch covariance in exact integers, and Jacobi's eigenvalue iteration. See patches.h. */
#include "step/patches.h"
#include "core/machine.h"
#include "core/system.h"

#include <string.h>

/* GCC on x86-64 compiles a CLONED function for three instruction sets. Integer sums have the same bits in each. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CLONED __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), noinline))
#else
#define CLONED
#endif

/* The patches of one image as 16-bit integers (C, size, H, across), where `across` is the number of patches per row:
 * element (c, x, y, p) is the pixel at row y, column x + p of channel c. Entry (c, y, x) of all patches is then one
 * contiguous range, which begins at element (c, x, y, 0). */
typedef struct patch_matrix {
    int size, d;                   /* side of a patch; entries of a patch */
    int64_t height, across, count; /* of the image; patches per row; patches of the image */
    int16_t *columns;
} patch_matrix;

static void fill_patch_matrix(const d9_init_site *site, int64_t image, const patch_matrix *m) {
    const int64_t h = site->height, w = site->width, c = site->grey ? 1 : site->channels;
    const uint8_t *pixels = site->images + image * h * w * c;
    int16_t *column = m->columns;
    for (int64_t channel = 0; channel < site->channels; channel++)
        for (int64_t x = 0; x < m->size; x++)
            for (int64_t y = 0; y < h; y++, column += m->across)
                for (int64_t px = 0; px < m->across; px++) column[px] = pixels[(y * w + x + px) * c + channel % c];
}

/* Entry k (channel, row, column) of the first patch, followed by entry k of all other patches. */
static const int16_t *entry(const patch_matrix *m, int k) {
    const int64_t channel = k / (m->size * m->size), y = k / m->size % m->size, x = k % m->size;
    return m->columns + ((channel * m->size + x) * m->height + y) * m->across;
}

CLONED static int32_t dot(const int16_t *a, const int16_t *b, int64_t count) {
    int32_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (int32_t)a[i] * b[i];
    return sum;
}

/* Adds the sums of bytes and their products over one image, in parts of RUN patches, whose sums fit 32 bits. */
static void add_products(const patch_matrix *m, int64_t *sums, int64_t *products) {
    enum { RUN = 32768 };
    for (int64_t begin = 0; begin < m->count; begin += RUN) {
        const int64_t count = m->count - begin < RUN ? m->count - begin : RUN;
        for (int i = 0; i < m->d; i++) {
            const int16_t *a = entry(m, i) + begin;
            int32_t sum = 0;
            for (int64_t p = 0; p < count; p++) sum += a[p];
            sums[i] += sum;
            for (int j = 0; j <= i; j++) products[i * m->d + j] += dot(a, entry(m, j) + begin, count);
        }
    }
}

static d9_status sum_images(d9_context *context, const d9_init_site *site, int64_t images, const patch_matrix *shape,
                            int64_t *sums, int64_t *products) {
    bool failed = false;
    d9_status status = D9_OK;
    const int d = shape->d, threads = site->threads > 0 ? site->threads : d9_default_threads();
    const int64_t elements = site->channels * shape->size * shape->height * shape->across;
#pragma omp parallel num_threads(threads)
    {
        int16_t *columns = NULL;
        int64_t *own_sums = NULL;
        d9_context quiet = *context; /* each thread has its own message */
        quiet.status = D9_OK;
        bool ready = D9_ALLOCATE(&quiet, elements, "patches", &columns) == D9_OK &&
                     D9_ALLOCATE(&quiet, d + d * d, "patch sums", &own_sums) == D9_OK;
        int64_t *own_products = ready ? own_sums + d : NULL;
        patch_matrix m = *shape;
        m.columns = columns;
#pragma omp for schedule(static)
        for (int64_t image = 0; image < images; image++) {
            if (!ready) continue;
            fill_patch_matrix(site, image, &m);
            add_products(&m, own_sums, own_products);
        }
#pragma omp critical
        {
            if (!ready) failed = true;
            for (int i = 0; ready && i < d; i++) sums[i] += own_sums[i];
            for (int i = 0; ready && i < d * d; i++) products[i] += own_products[i];
        }
        d9_release(&quiet, columns);
        d9_release(&quiet, own_sums);
    }
    if (failed) status = d9_fail(context, D9_DEVICE, "out of memory for patch statistics");
    return status;
}

d9_status d9_patch_covariance(d9_context *context, const d9_init_site *site, int64_t images, int size,
                              double *covariance) {
    d9_status status;
    int64_t *sums = NULL;
    int per_channel = size * size, d = (int)site->channels * per_channel;
    const int64_t across = site->width - size + 1, patches = (site->height - size + 1) * across;
    const patch_matrix shape = {.size = size, .d = d, .height = site->height, .across = across, .count = patches};
    if (images > site->image_count) images = site->image_count;
    if (site->height < size || site->width < size || images * patches < 2)
        return d9_fail(context, D9_USAGE, "patch whitening: %lld images of %lldx%lld have no %dx%d patches to measure",
                       (long long)images, (long long)site->height, (long long)site->width, size, size);
    D9_TRY(D9_ALLOCATE(context, d + d * d, "patch sums", &sums));
    int64_t *products = sums + d;
    D9_TRY(sum_images(context, site, images, &shape, sums, products));
    double total = (double)(images * patches);
    for (int i = 0; i < d; i++)
        for (int j = 0; j <= i; j++) {
            /* the normalised value is a + b * byte, per channel */
            const double *ti = site->table + i / per_channel * 256, *tj = site->table + j / per_channel * 256;
            double bi = (ti[255] - ti[0]) / 255, bj = (tj[255] - tj[0]) / 255;
            double sum = bi * bj * (double)products[i * d + j] + ti[0] * bj * (double)sums[j] +
                         tj[0] * bi * (double)sums[i] + ti[0] * tj[0] * total;
            covariance[i * d + j] = covariance[j * d + i] = sum / (total - 1);
        }
done:
    d9_release(context, sums);
    return status;
}

/* Rotates rows and columns p and q of `a` so that entry (p, q) vanishes, and rows p and q of `v` by the same angle. */
static void rotate(double *a, double *v, int d, int p, int q) {
    double apq = a[p * d + q];
    if (apq == 0) return;
    double theta = (a[q * d + q] - a[p * d + p]) / (2 * apq);
    double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < d; k++) {
        double x = a[k * d + p], y = a[k * d + q];
        a[k * d + p] = c * x - s * y;
        a[k * d + q] = s * x + c * y;
    }
    for (int k = 0; k < d; k++) {
        double x = a[p * d + k], y = a[q * d + k];
        a[p * d + k] = c * x - s * y;
        a[q * d + k] = s * x + c * y;
        x = v[p * d + k], y = v[q * d + k];
        v[p * d + k] = c * x - s * y;
        v[q * d + k] = s * x + c * y;
    }
}

static double off_diagonal_squares(const double *a, int d) {
    double sum = 0;
    for (int i = 0; i < d; i++)
        for (int j = 0; j < i; j++) sum += a[i * d + j] * a[i * d + j];
    return sum;
}

/* Sorts by descending eigenvalue, and negates a vector (a row of `vectors`) if its element of largest magnitude is
 * negative, so that the result is unique. */
static void make_eigenpairs_unique(double *values, double *vectors, int d) {
    for (int i = 0; i < d; i++) {
        int best = i, largest = 0;
        for (int j = i + 1; j < d; j++)
            if (values[j] > values[best]) best = j;
        double value = values[i];
        values[i] = values[best];
        values[best] = value;
        for (int k = 0; k < d; k++) {
            double x = vectors[i * d + k];
            vectors[i * d + k] = vectors[best * d + k];
            vectors[best * d + k] = x;
        }
        double *row = vectors + i * d;
        for (int k = 1; k < d; k++)
            if (fabs(row[k]) > fabs(row[largest])) largest = k;
        for (int k = 0, negate = row[largest] < 0; k < d && negate; k++) row[k] = -row[k];
    }
}

d9_status d9_symmetric_eigen(d9_context *context, double *matrix, int d, double *eigenvalues, double *vectors) {
    enum { MAX_SWEEPS = 60 };
    double scale = 0;
    for (int i = 0; i < d * d; i++) scale += matrix[i] * matrix[i];
    if (!isfinite(scale)) return d9_fail(context, D9_NONFINITE, "the matrix to decompose is not finite");
    memset(vectors, 0, (size_t)(d * d) * sizeof *vectors);
    for (int i = 0; i < d; i++) vectors[i * d + i] = 1;
    int sweep = 0;
    while (off_diagonal_squares(matrix, d) > 1e-30 * scale && sweep++ < MAX_SWEEPS)
        for (int p = 0; p < d; p++)
            for (int q = p + 1; q < d; q++) rotate(matrix, vectors, d, p, q);
    if (sweep > MAX_SWEEPS) return d9_fail(context, D9_NONFINITE, "Jacobi's iteration did not converge");
    for (int i = 0; i < d; i++) eigenvalues[i] = matrix[i * d + i];
    make_eigenpairs_unique(eigenvalues, vectors, d);
    return D9_OK;
}

d9_status d9_whitening_filters(d9_context *context, const d9_whitening *whitening, const d9_init_site *site,
                               double *values, int64_t count) {
    d9_status status;
    int size = (int)whitening->size, channels = (int)site->channels, d = channels * size * size;
    double *covariance = NULL;
    if (count != (int64_t)d * d)
        return d9_fail(context, D9_USAGE, "%s: %d filters of %d entries expected", site->parameter->name, d, d);
    D9_TRY(D9_ALLOCATE(context, 2 * d * d + d, "whitening filters", &covariance));
    double *vectors = covariance + d * d, *eigenvalues = vectors + d * d;
    D9_TRY(d9_patch_covariance(context, site, whitening->images, size, covariance));
    D9_TRY(d9_symmetric_eigen(context, covariance, d, eigenvalues, vectors));
    for (int j = 0; j < d; j++) {
        double gain = 1 / sqrt(fmax(eigenvalues[j], 0) + whitening->epsilon);
        if (!isfinite(gain))
            D9_TRY(
                d9_fail(context, D9_DATA, "%s: the patches have no variance; use an epsilon above 0", whitening->key));
        for (int c = 0; c < channels; c++)
            for (int p = 0; p < size * size; p++)
                values[(j * size * size + p) * channels + c] = gain * vectors[j * d + c * size * size + p];
    }
done:
    d9_release(context, covariance);
    return status;
}
