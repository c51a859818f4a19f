// Kernels for planted_code.sh. This one reads 16 bytes at once from a shared array that is aligned to ALIGNED bytes.
__global__ void planted_kernel(const float *x, float4 *y) {
    __shared__ __align__(ALIGNED) float kept[128];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const float *mine = kept + 4 * (31 - threadIdx.x % 32);
    if (threadIdx.x < 32) y[threadIdx.x] = *reinterpret_cast<const float4 *>(mine);
}

// In chain_kernel, one_kernel and fold_kernel every iteration of a loop waits for its only load; two_kernel and
// grid_kernel have no loop that counts as serial. one_kernel and two_kernel are named after their loads in flight.
__global__ void chain_kernel(const int *next, int count, int *last) { // each address is the result of the load before
    int at = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < count; i++) at = next[at];
    last[threadIdx.x] = at;
}
__global__ void one_kernel(const unsigned short *x, int count, float *y) { // one load of two bytes, then a store
    extern __shared__ float tile[];
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    y[threadIdx.x] = tile[count - 1 - threadIdx.x];
}
__global__ void fold_kernel(const double *sums, int count, double *total) { // a thread adds the sums of all blocks
    double sum = 0;
    for (int i = 0; i < count; i++) sum += sums[i * 64 + threadIdx.x];
    total[threadIdx.x] = sum;
}
// A loop with two loads in flight, and an unrolled loop, whose remainder loop has one load in flight.
__global__ void two_kernel(const float *x, const float *y, int count, float *dot) {
    float sum = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += x[i] * y[i];
#pragma unroll 4
    for (int i = 0; i < count; i++) sum += x[i * count];
    dot[threadIdx.x] = sum;
}
__global__ void grid_kernel(const float *x, int count, float *y) { // a loop over all threads of the grid
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];
}
