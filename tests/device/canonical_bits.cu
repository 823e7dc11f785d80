/* SPDX-License-Identifier: MIT
 * canonical_bits.cu - canonical.h as device code: one block digests one chunk. */
#include "canonical_bits.h"

static __global__ void digest_chunk(int which, unsigned long long *digests) {
    unsigned long long sum = 0;
    for (uint32_t i = threadIdx.x; i < CHUNK_SIZE; i += blockDim.x) {
        sum += digest_part(which, blockIdx.x * CHUNK_SIZE + i);
    }
    atomicAdd(&digests[blockIdx.x], sum);
}

int device_digests(int which, uint64_t digests[CHUNKS]) {
    unsigned long long *out = NULL;
    cudaMalloc(&out, CHUNKS * sizeof *out);
    cudaMemset(out, 0, CHUNKS * sizeof *out);
    digest_chunk<<<CHUNKS, 256>>>(which, out);
    cudaMemcpy(digests, out, CHUNKS * sizeof *out, cudaMemcpyDeviceToHost);
    cudaFree(out);
    return (int)cudaGetLastError();
}
