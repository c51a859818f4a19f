// For planted_code.sh: 16 bytes at once are read from an array of shared memory that is aligned to ALIGNED bytes.
__global__ void planted_kernel(const float *x, float4 *y) {
    __shared__ __align__(ALIGNED) float kept[128];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const float *mine = kept + 4 * (31 - threadIdx.x % 32);
    if (threadIdx.x < 32) y[threadIdx.x] = *reinterpret_cast<const float4 *>(mine);
}
