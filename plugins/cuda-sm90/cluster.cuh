/* SPDX-License-Identifier: MIT
 * cluster.cuh - blocks of a cluster, which run at the same time and read each other's shared memory. */
#ifndef OPREG_SM90_CLUSTER_CUH
#define OPREG_SM90_CLUSTER_CUH

#include "tensor.cuh"

DEVICE uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* 1 where the launch has no clusters. */
DEVICE uint32_t cluster_size() {
    uint32_t size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

/* All threads of all blocks; what they wrote to shared memory before is there after it. */
DEVICE void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* What another block has at the same place of its shared memory. */
DEVICE float4 cluster_read(const float4 *mine, uint32_t rank) {
    float4 v;
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"(shared_address(mine)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

#endif /* OPREG_SM90_CLUSTER_CUH */
