/* SPDX-License-Identifier: MIT
 * device.h - runs one variant on the GPU beside the CPU reference, straight from both tables: no
 * registry, so that a kernel can be tried before its flag exists. */
#ifndef OPREG_SM90_TEST_DEVICE_H
#define OPREG_SM90_TEST_DEVICE_H

#include "cpu/cpu.h"
#include "problem.h"

typedef struct rig {
    opreg_plugin cpu, gpu;
    opreg_device device;
    opreg_host host;
    uint64_t random;
    int chained; /* the plugin's switch "chain"                                                  */
} rig;

/* Exits with a line where there is no device. */
void rig_open(rig *r);

uint64_t rig_random(rig *r);
double rig_gaussian(rig *r);

/* Memory of the device. */
void *rig_alloc(rig *r, uint64_t bytes);
void rig_free(rig *r, void *p);
void rig_up(rig *r, void *dst, const void *src, uint64_t bytes);
void rig_down(rig *r, void *dst, const void *src, uint64_t bytes);

const opreg_kernel *rig_kernel(const opreg_plugin *plugin, const char *name);
const opreg_kernel *rig_reference(rig *r, opreg_op op);

/* Everything that one problem needs, on the host and on the device. */
typedef struct rig_case {
    opreg_op op;
    problem_any problem;
    uint32_t num_bufs, num_weights;
    problem_buffer shape[PROBLEM_MAX_BUFS];
    opreg_buf host[PROBLEM_MAX_BUFS], device[PROBLEM_MAX_BUFS];
    opreg_weight_view view[PROBLEM_MAX_WEIGHTS];        /* host                                   */
    opreg_weight_view device_view[PROBLEM_MAX_WEIGHTS]; /* stored                                 */
    opreg_weight_view prepared[PROBLEM_MAX_WEIGHTS];    /* rows32, where the format has it        */
    void *workspace;
    uint64_t workspace_bytes;
} rig_case;

/* Seeded inputs; 0 when the text is no problem. */
int rig_make(rig *r, opreg_op op, const char *text, rig_case *out);
void rig_drop(rig *r, rig_case *c);

/* Runs a kernel: the CPU one on host memory, the GPU one on device memory. */
opreg_status rig_run_cpu(rig *r, rig_case *c);
opreg_status rig_run_gpu(rig *r, rig_case *c, const opreg_kernel *kernel, int prepared,
                         void *stream);

/* Fills the outputs on the device with a NaN pattern. */
void rig_poison(rig *r, rig_case *c);

/* Elements that differ between the host's outputs and the device's, NaN equal to NaN; prints the
 * first when name is not null. */
int64_t rig_compare(rig *r, rig_case *c, const char *name);
/* NMSE of the device's outputs to the host's. */
double rig_error(rig *r, rig_case *c);

uint32_t rig_output_dtype(const rig_case *c, uint32_t buffer);
double rig_now_us(void);

#endif /* OPREG_SM90_TEST_DEVICE_H */
