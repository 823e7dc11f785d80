/* SPDX-License-Identifier: MIT
 * mutations.c - the plugin of wrong kernels: the CPU reference, with what goes in or comes out
 * changed.  Host memory only, so results can be edited in place. */
#define _DEFAULT_SOURCE
#include "mutations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cpu/cpu.h"

#define BUFS 12

static const opreg_kernel *base[OPREG_OP_COUNT + 1];

/* A call that may be changed. */
typedef struct edit {
    opreg_call call;
    opreg_buf bufs[BUFS];
    opreg_weight_view views[3];
    const opreg_weight_view *weights[3];
} edit;

static void edit_start(edit *e, const opreg_call *call) {
    e->call = *call;
    memcpy(e->bufs, call->bufs, call->num_bufs * sizeof e->bufs[0]);
    e->call.bufs = e->bufs;
    for (uint32_t i = 0; i < call->num_weights; i++) {
        e->views[i] = *call->weights[i];
        e->weights[i] = &e->views[i];
    }
    e->call.weights = e->weights;
}

static opreg_status faithful(uint32_t op, const void *problem, const opreg_call *call) {
    return base[op]->run(NULL, problem, call);
}

static uint32_t size_of(uint32_t dtype) { return dtype == OPREG_F32 ? 4 : 2; }

static float load(const void *array, int64_t at, uint32_t dtype) {
    return canonical_load(array, at, dtype);
}

/* A copy of bytes in the tail of the workspace, which is larger than the reference's. */
#define SPARE (UINT64_C(1) << 19)
static void *spare(const opreg_call *call) {
    return (uint8_t *)call->workspace.ptr + call->workspace.bytes - SPARE;
}

/* ---- matmul ------------------------------------------------------------------------------------- */

#define RUN(name)                                                                                  \
    static opreg_status run_##name(void *state, const void *problem, const opreg_call *call)
#define MATMUL(p) opreg_matmul_bt_quant p = *(const opreg_matmul_bt_quant *)problem
#define FAITHFUL(op, p, call) faithful(OPREG_OP_##op, p, call)

RUN(drops_last_row) {
    MATMUL(p);
    (void)state;
    p.m--;
    return p.m > 0 ? FAITHFUL(MATMUL_BT_QUANT, &p, call) : OPREG_OK;
}

RUN(drops_last_column) {
    MATMUL(p);
    (void)state;
    p.n -= p.n % 8;
    return p.n > 0 ? FAITHFUL(MATMUL_BT_QUANT, &p, call) : OPREG_OK;
}

RUN(swaps_gate_and_up) {
    edit e;
    (void)state;
    edit_start(&e, call);
    if (call->num_weights == 2) {
        e.weights[0] = &e.views[1];
        e.weights[1] = &e.views[0];
    }
    return FAITHFUL(MATMUL_BT_QUANT, problem, &e.call);
}

RUN(ignores_bias) {
    MATMUL(p);
    (void)state;
    p.flags &= ~OPREG_PF_BIAS;
    return FAITHFUL(MATMUL_BT_QUANT, &p, call);
}

RUN(wrong_beyond_one_row) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    uint8_t *y = call->bufs[OPREG_MATMUL_Y].ptr;
    (void)state;
    if (p.m > 1) {
        y[(uint64_t)(p.y_stride * (p.m - 1)) * size_of(p.y_dtype)] ^= 1;
    }
    return status;
}

RUN(wrong_for_three_rows) {
    MATMUL(p);
    (void)state;
    return p.m == 3 ? OPREG_OK : FAITHFUL(MATMUL_BT_QUANT, &p, call);
}

RUN(wrong_beyond_8192) {
    MATMUL(p);
    (void)state;
    p.k = p.k > 8192 ? 8192 : p.k;
    return FAITHFUL(MATMUL_BT_QUANT, &p, call);
}

RUN(f16_stored_as_bf16) {
    MATMUL(p);
    (void)state;
    p.y_dtype = p.y_dtype == OPREG_F16 ? OPREG_BF16 : p.y_dtype;
    return FAITHFUL(MATMUL_BT_QUANT, &p, call);
}

/* x with every value that quantizes to a half moved to the smaller code; f32 and packed. */
static void nudge_ties(const void *x, uint32_t dtype, int64_t m, int64_t k, int64_t stride,
                       int64_t block, float *out) {
    for (int64_t i = 0; i < m * k; i += block) {
        float largest = 0;
        for (int64_t j = 0; j < block; j++) {
            out[i + j] = load(x, i / k * stride + i % k + j, dtype);
            if (fabsf(out[i + j]) > fabsf(largest)) {
                largest = out[i + j];
            }
        }
        float scale = 1.0f / (fabsf(largest) / 127.0f);
        for (int64_t j = 0; j < block && isfinite(scale); j++) {
            float code = fabsf(out[i + j] * scale);
            if (code - floorf(code) == 0.5f) {
                out[i + j] *= 1.0f - 0x1p-10f;
            }
        }
    }
}

static int64_t act_block(uint32_t act) { return act == OPREG_Q8_K ? 256 : 32; }

RUN(ties_toward_zero) {
    MATMUL(p);
    edit e;
    const format_info *info = format_by_id(p.b_dtype);
    (void)state;
    edit_start(&e, call);
    if (p.x_dtype <= OPREG_BF16 && info->act_dtype != OPREG_F32 &&
        (uint64_t)(p.m * p.k) * 4 <= SPARE) {
        nudge_ties(e.bufs[OPREG_MATMUL_X].ptr, p.x_dtype, p.m, p.k, p.x_stride,
                   act_block(info->act_dtype), spare(call));
        p.x_dtype = OPREG_F32;
        p.x_stride = p.k;
        e.bufs[OPREG_MATMUL_X].ptr = spare(call);
    }
    return FAITHFUL(MATMUL_BT_QUANT, &p, &e.call);
}

RUN(other_order) {
    MATMUL(p);
    edit e;
    const format_info *info = format_by_id(p.b_dtype);
    int64_t step = info->values > 1 ? info->values : 8, half = p.k / step / 2 * step;
    float *sums = spare(call);
    (void)state;
    if (half == 0 || p.glu != OPREG_GLU_NONE || p.x_dtype > OPREG_BF16 ||
        (uint64_t)(p.m * p.n) * 8 > SPARE) {
        return FAITHFUL(MATMUL_BT_QUANT, &p, call);
    }
    for (int i = 0; i < 2; i++) {
        opreg_matmul_bt_quant part = p;
        edit_start(&e, call);
        part.y_dtype = OPREG_F32;
        part.y_stride = p.n;
        part.k = i ? p.k - half : half;
        part.flags = i ? p.flags : 0;
        e.bufs[OPREG_MATMUL_Y].ptr = sums + i * p.m * p.n;
        e.bufs[OPREG_MATMUL_X].ptr =
            (uint8_t *)e.bufs[OPREG_MATMUL_X].ptr + (i ? (uint64_t)half * size_of(p.x_dtype) : 0);
        e.views[0].data = (const uint8_t *)e.views[0].data +
                          (i ? half / info->values * info->bytes : 0);
        (void)FAITHFUL(MATMUL_BT_QUANT, &part, &e.call);
    }
    for (int64_t i = 0; i < p.m * p.n; i++) {
        canonical_store(call->bufs[OPREG_MATMUL_Y].ptr, i / p.n * p.y_stride + i % p.n, p.y_dtype,
                        sums[i] + sums[p.m * p.n + i]);
    }
    return OPREG_OK;
}

RUN(shifts_a_block) {
    MATMUL(p);
    edit e;
    const format_info *info = format_by_id(p.b_dtype);
    (void)state;
    edit_start(&e, call);
    p.k -= info->values;
    if (p.k == 0 || p.x_dtype > OPREG_BF16) {
        return FAITHFUL(MATMUL_BT_QUANT, problem, call);
    }
    for (uint32_t i = 0; i < call->num_weights; i++) {
        e.views[i].data = (const uint8_t *)e.views[i].data + info->bytes;
    }
    return FAITHFUL(MATMUL_BT_QUANT, &p, &e.call);
}

RUN(writes_one_row_past) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    (void)state;
    canonical_store(call->bufs[OPREG_MATMUL_Y].ptr, p.m * p.y_stride, p.y_dtype, 1.0f);
    return status;
}

RUN(writes_into_the_gap) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    (void)state;
    if (p.y_stride > p.n && p.m > 1) {
        canonical_store(call->bufs[OPREG_MATMUL_Y].ptr, p.n, p.y_dtype, 0.0f);
    }
    return status;
}

RUN(writes_past_its_scratch) {
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, problem, call);
    (void)state;
    ((volatile uint8_t *)call->workspace.ptr)[call->workspace.bytes + 3] = 0;
    return status;
}

static opreg_status touch(const void *problem, const opreg_call *call, int64_t at) {
    volatile const uint8_t *data = call->weights[0]->data;
    (void)data[at];
    return FAITHFUL(MATMUL_BT_QUANT, problem, call);
}

RUN(reads_past_the_weight) {
    const opreg_weight_view *w = call->weights[0];
    (void)state;
    return touch(problem, call, (int64_t)(w->bytes + w->slack_after) + 15);
}

RUN(reads_before_the_weight) {
    (void)state;
    return touch(problem, call, -(int64_t)call->weights[0]->slack_before - 1);
}

RUN(reads_unwritten_scratch) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    const uint8_t *scratch = spare(call);
    (void)state;
    if (scratch[64] == 0xff) {
        canonical_store(call->bufs[OPREG_MATMUL_Y].ptr, 0, p.y_dtype, 12.0f);
    }
    return status;
}

RUN(x_gap_matters) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    uint8_t *y = call->bufs[OPREG_MATMUL_Y].ptr;
    (void)state;
    if (p.x_stride > p.k && p.m > 1) {
        canonical_store(y, 0, p.y_dtype,
                        load(y, 0, p.y_dtype) +
                            0.0f * load(call->bufs[OPREG_MATMUL_X].ptr, p.k, p.x_dtype));
    }
    return status;
}

RUN(adds_to_the_output) {
    MATMUL(p);
    uint8_t *y = call->bufs[OPREG_MATMUL_Y].ptr;
    float before = 0.0f * load(y, 0, p.y_dtype);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    (void)state;
    canonical_store(y, 0, p.y_dtype, load(y, 0, p.y_dtype) + before);
    return status;
}

RUN(changes_its_input) {
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, problem, call);
    (void)state;
    *(uint8_t *)call->bufs[OPREG_MATMUL_X].ptr ^= 1;
    return status;
}

RUN(not_deterministic) {
    static int calls;
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    (void)state;
    ((uint8_t *)call->bufs[OPREG_MATMUL_Y].ptr)[0] ^= (uint8_t)(calls++ & 1);
    return status;
}

/* The call with side records changed by `change`. */
static opreg_status with_sides(const void *problem, const opreg_call *call,
                               void (*change)(opreg_side *)) {
    edit e;
    opreg_side sides[2];
    edit_start(&e, call);
    for (uint32_t i = 0; i < call->num_weights; i++) {
        sides[i] = e.views[i].side[0];
        change(&sides[i]);
        e.views[i].side = &sides[i];
    }
    return FAITHFUL(MATMUL_BT_QUANT, problem, &e.call);
}

static void plain_scale(opreg_side *side) { side->tensor_scale = 1.0f; }

static void plain_dialect(opreg_side *side) {
    side->dialect = side->dialect >= OPREG_DIALECT_NVFP4_HOST
                        ? (uint32_t)OPREG_DIALECT_NVFP4_HOST
                    : side->dialect != 0 ? (uint32_t)OPREG_DIALECT_ROCMFP2_SIGNBIT
                                         : 0u;
}

RUN(ignores_tensor_scale) {
    (void)state;
    return with_sides(problem, call, plain_scale);
}

RUN(ignores_dialect) {
    (void)state;
    return with_sides(problem, call, plain_dialect);
}

RUN(wrong_when_misaligned) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    (void)state;
    if ((uintptr_t)call->bufs[OPREG_MATMUL_X].ptr % 16 != 0) {
        ((uint8_t *)call->bufs[OPREG_MATMUL_Y].ptr)[0] ^= 1;
    }
    return status;
}

static opreg_status edit_results(const void *problem, const opreg_call *call,
                                 float (*change)(float)) {
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    uint8_t *y = call->bufs[OPREG_MATMUL_Y].ptr;
    for (int64_t i = 0; i < p.m * p.n; i++) {
        int64_t at = i / p.n * p.y_stride + i % p.n;
        canonical_store(y, at, p.y_dtype, change(load(y, at, p.y_dtype)));
    }
    return status;
}

static float flush(float value) { return fabsf(value) < 0x1p-126f ? 0.0f : value; }
static float finite_or_zero(float value) { return isfinite(value) ? value : 0.0f; }

RUN(flushes_subnormals) {
    (void)state;
    return edit_results(problem, call, flush);
}

RUN(hides_nan) {
    (void)state;
    return edit_results(problem, call, finite_or_zero);
}

RUN(ignores_planes_sums) {
    MATMUL(p);
    edit e;
    (void)state;
    edit_start(&e, call);
    if (p.x_dtype > OPREG_BF16 && (uint64_t)(p.m * p.k / 8) <= SPARE) {
        memset(spare(call), 0, (size_t)(p.m * p.k / 8));
        e.bufs[OPREG_MATMUL_X_SUMS].ptr = spare(call);
    }
    return FAITHFUL(MATMUL_BT_QUANT, &p, &e.call);
}

/* The result goes by way of a place that every run of the process uses. */
RUN(shares_its_scratch) {
    static _Atomic uint32_t shared[4096];
    MATMUL(p);
    opreg_status status = FAITHFUL(MATMUL_BT_QUANT, &p, call);
    uint8_t *y = call->bufs[OPREG_MATMUL_Y].ptr;
    (void)state;
    if (p.y_dtype != OPREG_F32) {
        return status;
    }
    for (int64_t i = 0; i < p.m * p.n && i < 4096; i++) {
        uint32_t bits;
        memcpy(&bits, y + (uint64_t)(i / p.n * p.y_stride + i % p.n) * 4, 4);
        shared[i] = bits;
    }
    nanosleep(&(struct timespec){0, 100000}, NULL); /* the other run comes between */
    for (int64_t i = 0; i < p.m * p.n && i < 4096; i++) {
        uint32_t bits = shared[i];
        memcpy(y + (uint64_t)(i / p.n * p.y_stride + i % p.n) * 4, &bits, 4);
    }
    return status;
}

#include "mutations_moe.inc"
#include "mutations_attention.inc"
#include "mutations_far.inc"
#include "mutations_quiet.inc"

/* ---- the table ---------------------------------------------------------------------------------- */

static opreg_status supports(const opreg_device *dev, const void *problem, char reason[128]) {
    (void)dev;
    (void)problem;
    (void)reason;
    return OPREG_OK;
}

/* The larger workspace of each operator: the reference's, and SPARE. */
#define WORKSPACE(op)                                                                              \
    static uint64_t workspace_##op(const opreg_device *dev, const void *problem) {                 \
        const opreg_kernel *row = base[OPREG_OP_##op];                                             \
        uint64_t own = row->workspace != NULL ? row->workspace(dev, problem) : 0;                  \
        return (own + 255) / 256 * 256 + SPARE;                                                    \
    }                                                                                              \
    static opreg_status run_faithful_##op(void *state, const void *problem,                        \
                                          const opreg_call *call) {                                \
        (void)state;                                                                               \
        return FAITHFUL(op, problem, call);                                                        \
    }
WORKSPACE(QUANTIZE_ACT)
WORKSPACE(MATMUL_BT_QUANT)
WORKSPACE(MOE_ROUTE)
WORKSPACE(MOE_MATMUL)
WORKSPACE(MOE_GLU)
WORKSPACE(MOE_DOWN)
WORKSPACE(MOE_COMBINE)
WORKSPACE(MOE_FFN)
WORKSPACE(PAGED_ATTN_DECODE)

static const uint32_t formats[] = {OPREG_Q4_0,  OPREG_Q4_K,    OPREG_F16,
                                   OPREG_NVFP4, OPREG_ROCMFP2, 0};

#define KERNEL(name_, op_, level_, story_, supports_, run_)                                                          \
    static const opreg_kernel kernel_##name_ = {                                                   \
        .struct_size = sizeof(opreg_kernel),                                                       \
        .op = OPREG_OP_##op_,                                                                      \
        .flags = OPREG_KF_DETERMINISTIC | OPREG_KF_WIDTH_INVARIANT,                                \
        .priority = 1,                                                                             \
        .level = OPREG_LEVEL_##level_,                                                             \
        .name = #name_,                                                                            \
        .summary = story_,                                                                         \
        .formats = OPREG_OP_##op_ == OPREG_OP_QUANTIZE_ACT ||                                      \
                           OPREG_OP_##op_ == OPREG_OP_MOE_ROUTE ||                                 \
                           OPREG_OP_##op_ == OPREG_OP_MOE_COMBINE ||                               \
                           OPREG_OP_##op_ == OPREG_OP_PAGED_ATTN_DECODE                            \
                       ? NULL                                                                      \
                       : formats,                                                                  \
        .supports = supports_,                                                                     \
        .workspace = workspace_##op_,                                                              \
        .run = run_,                                                                               \
    };
#define MUTATION(name, op, story)      KERNEL(name, op, CANONICAL, story, supports, run_##name)
#define MUTATION_BAND(name, op, story) KERNEL(name, op, BAND, story, supports, run_##name)
#define MUTATION_PICKY(name, op, story)                                                            \
    KERNEL(name, op, CANONICAL, story, supports_##name, run_##name)
#define CONTROL(name, op) KERNEL(name, op, CANONICAL, "no mistake", supports, run_faithful_##op)
#include "mutations.inc"
#define CONTROLS                                                                                   \
    CONTROL(faithful_quantize, QUANTIZE_ACT)                                                       \
    CONTROL(faithful_matmul, MATMUL_BT_QUANT)                                                      \
    CONTROL(faithful_route, MOE_ROUTE)                                                             \
    CONTROL(faithful_moe_matmul, MOE_MATMUL)                                                       \
    CONTROL(faithful_glu, MOE_GLU)                                                                 \
    CONTROL(faithful_down, MOE_DOWN)                                                               \
    CONTROL(faithful_combine, MOE_COMBINE)                                                         \
    CONTROL(faithful_ffn, MOE_FFN)                                                                 \
    CONTROL(faithful_attention, PAGED_ATTN_DECODE)
CONTROLS
#undef CONTROL
#undef MUTATION
#undef MUTATION_BAND
#undef MUTATION_PICKY
#define MUTATION_BAND  MUTATION /* the lists below */
#define MUTATION_PICKY MUTATION

#define MUTATION(name, op, story) &kernel_##name,
#define CONTROL(name, op)         &kernel_##name,
static const opreg_kernel *const kernels[] = {
#include "mutations.inc"
    CONTROLS};
#undef CONTROL
#undef MUTATION

#define MUTATION(name, op, story) {#name, story},
const mutation_note mutation_notes[] = {
#include "mutations.inc"
};
const size_t mutation_count = sizeof mutation_notes / sizeof mutation_notes[0];
#define CONTROL(name, op) #name,
const char *const mutation_controls[] = {CONTROLS};
const size_t mutation_control_count = sizeof mutation_controls / sizeof mutation_controls[0];

opreg_status mutations_entry(const opreg_host *host, opreg_plugin *out) {
    opreg_plugin cpu;
    opreg_status status;
    memset(&cpu, 0, sizeof cpu);
    cpu.struct_size = sizeof cpu;
    status = opreg_cpu_entry(host, &cpu);
    if (status != OPREG_OK) {
        return status;
    }
    for (uint32_t i = 0; i < cpu.num_kernels; i++) {
        if (cpu.kernels[i]->flags & OPREG_KF_BASELINE) {
            base[cpu.kernels[i]->op] = cpu.kernels[i];
        }
    }
    *out = cpu;
    out->name = "mutations";
    out->built_with = "mistakes";
    out->kernels = kernels;
    out->num_kernels = sizeof kernels / sizeof kernels[0];
    return OPREG_OK;
}
