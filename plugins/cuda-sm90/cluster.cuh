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

/* The same in two steps, which say only that all threads have come: what is started before the first
 * stands after the second. */
DEVICE void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
DEVICE void cluster_leave() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

/* Where another block has what this one has at `mine`. */
DEVICE uint32_t at_rank(const void *mine, uint32_t rank) {
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"(shared_address(mine)), "r"(rank));
    return at;
}
DEVICE void cluster_store(uint32_t at, float v) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
}
DEVICE void cluster_store(uint32_t at, float4 v) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
}

/* Puts 16 bytes at the same place of another block's shared memory and counts them at its barrier. */
DEVICE void cluster_send(const void *mine, float4 v, const uint64_t *barrier, uint32_t rank) {
    asm volatile("{\n"
                 ".reg .b32 to, count;\n"
                 "mapa.shared::cluster.u32 to, %0, %2;\n"
                 "mapa.shared::cluster.u32 count, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], "
                 "{%3, %4, %5, %6}, [count];\n"
                 "}" ::"r"(shared_address(mine)),
                 "r"(shared_address(barrier)), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

/* barrier_wait for what other blocks have sent. */
DEVICE void cluster_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
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
