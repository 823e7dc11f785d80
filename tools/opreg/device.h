/* SPDX-License-Identifier: MIT
 * device.h - one device of a registry: its memory, its stream, a weight on it, a timed run. */
#ifndef OPREG_TOOLS_DEVICE_H
#define OPREG_TOOLS_DEVICE_H

#include "opreg/opreg_plugin.h"

typedef struct device {
    opreg_registry *reg;
    opreg_device row;
    const opreg_device_io *io;
    const opreg_host *host;
    void *stream;
    char name[96];
} device;

/* 0 with opreg_last_error set.  The registry must outlive the device. */
int device_open(opreg_registry *reg, const opreg_device *row, device *out);
void device_close(device *d);

/* Memory of the device, 256-byte aligned; {NULL, 0} with opreg_last_error set when there is none.
 */
opreg_buf device_alloc(const device *d, uint64_t bytes);
void device_free(const device *d, opreg_buf *buf);
int device_upload(const device *d, opreg_buf to, const void *from, uint64_t bytes);
int device_download(const device *d, void *to, opreg_buf from, uint64_t bytes);
int device_fill(const device *d, opreg_buf buf, uint8_t byte);
int device_sync(const device *d);

/* Runs the plan once and waits.  *us is how long it took, by the device's clock where it has one.
 */
opreg_status device_run(const device *d, const opreg_plan *plan, const opreg_args *args,
                        double *us);

/* A plan ready to run on weights that are stored on the device. */
typedef struct arm {
    const device *where;
    opreg_plan *plan;
    opreg_weight *prepared; /* null: the plan reads the stored weight */
    opreg_buf layout, workspace;
    const opreg_weight *weights[1];
} arm;

/* Plans "plugin/kernel" and gets its weight (null: none) and workspace ready.  On failure
 * opreg_last_error says why and nothing is left behind. */
opreg_status arm_open(const device *d, opreg_op op, const void *problem, const char *kernel,
                      const opreg_weight *stored, arm *out);
void arm_close(arm *a);

#endif /* OPREG_TOOLS_DEVICE_H */
