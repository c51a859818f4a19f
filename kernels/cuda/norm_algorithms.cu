/* Candidate divisions of work for the one-pass normalisation: the number of channels of a cluster, and the number of
 * blocks that share its rows. The device is queried for the shared memory of a block and for the number of clusters
 * that run at the same time; a division whose clusters cannot run is dropped.
 *
 * All divisions move the same number of bytes (about a quarter more if x is read twice). Clusters run in waves. The
 * estimated time of a wave is the sum of three times: of its blocks on a multiprocessor; of one more block, because the
 * phases of a block cannot all overlap; and of moving 32 KiB, for its barriers. So small blocks and few waves are fast.
 * Fewer than 32 channels are slower in half precision, because 16 channels fill half of a 64-byte access; the estimate
 * adds 5% for them in every precision. The list is ordered by the estimated time, then by the most channels, then by
 * the fewest blocks; tuning on the device may choose another division. */
#include "kernels/cuda/norm_resident.h"

struct ranked_algorithm {
    d9_cuda_norm_algorithm algorithm;
    double cost;
};

/* Shared memory in bytes for the 8 channels of a position: forward x; backward dz or, with keeps_x, dz, x and two bytes
 * for the positions of the maxima, even without a pool, so that the work is divided equally with and without one. */
static int64_t run_bytes(d9_kernel_store store, bool backward, bool keeps_x) {
    const int64_t run = store == D9_KERNEL_F32 ? 4 * D9_WIDE : 2 * D9_WIDE;
    return backward && keeps_x ? 2 * run + 2 : run;
}

static int64_t block_bytes(const d9_kernel_norm *norm, int runs, int blocks, int64_t per_run) {
    const int64_t rows = d9_parts_of(norm->images / norm->groups * norm->pixels, blocks);
    return d9_parts_of(rows, D9_BLOCK / runs) * D9_BLOCK * per_run;
}

/* Estimated time, in arbitrary units. at_once: number of clusters that run at the same time. */
static double cost(const d9_kernel_norm *norm, const d9_cuda_norm_algorithm *a, int at_once, const d9_limits &limits) {
    const int64_t clusters = norm->groups * d9_parts_of(norm->channels / D9_WIDE, a->runs);
    const int64_t rows = norm->images / norm->groups * norm->pixels, lines = D9_BLOCK / a->runs * a->blocks;
    const double used = rows < lines ? static_cast<double>(rows) / static_cast<double>(lines) : 1;
    const double blocks = used * static_cast<double>(clusters * a->blocks) / limits.multiprocessors; /* on each */
    const double waves = static_cast<double>(d9_parts_of(clusters, at_once)),
                 bytes = static_cast<double>(a->block_bytes);
    return (a->keeps_x ? 1 : 1.25) * (a->runs < 4 ? 1.05 : 1) * (1 + waves * (1 + (32 << 10) / bytes) / blocks);
}

/* Inserts `one` after all entries with at most its cost. */
static void insert(ranked_algorithm *list, int *count, const ranked_algorithm &one) {
    int at = (*count)++;
    for (; at > 0 && list[at - 1].cost > one.cost; at--) list[at] = list[at - 1];
    list[at] = one;
}

int d9_cuda_norm_algorithms(const d9_kernel_norm *norm, d9_kernel_store store, bool backward, bool pools,
                            d9_cuda_norm_algorithm *algorithms, int capacity, int *count) {
    d9_limits limits;
    ranked_algorithm list[D9_CUDA_NORM_ALGORITHMS];
    int found = 0;
    *count = 0;
    if (norm->images <= 0 || norm->pixels <= 0 || norm->channels <= 0 || norm->channels % D9_WIDE != 0) return 0;
    if (norm->images * norm->pixels > D9_RESIDENT_ROWS) return 0;
    const int64_t all = norm->channels / D9_WIDE, rows = norm->images / norm->groups * norm->pixels;
    D9_CUDA_TRY(backward ? d9_norm_resident_backward_limits(&limits) : d9_norm_resident_limits(&limits));
    for (int keeps = 1; keeps >= (backward && !pools ? 0 : 1); keeps--)
        for (int runs = D9_RESIDENT_RUNS; runs >= (all == 1 ? 1 : 2); runs /= 2)
            for (int blocks = 1; runs < 2 * all && blocks <= limits.cluster_blocks && blocks <= rows; blocks *= 2) {
                const int64_t bytes = block_bytes(norm, runs, blocks, run_bytes(store, backward, keeps));
                const d9_cuda_norm_algorithm algorithm = {runs, blocks, bytes, keeps != 0};
                if (bytes > limits.block_bytes) continue;
                const int at_once = backward ? d9_norm_resident_backward_clusters(store, pools, &algorithm, limits)
                                             : d9_norm_resident_clusters(store, pools, &algorithm, limits);
                if (at_once > 0) insert(list, &found, {algorithm, cost(norm, &algorithm, at_once, limits)});
            }
    for (; *count < found && *count < capacity; (*count)++) algorithms[*count] = list[*count].algorithm;
    return 0;
}
