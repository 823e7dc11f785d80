/* SPDX-License-Identifier: MIT
 * engine.h - a small engine over a GPU plugin: a whole decode step's worth of driver calls. */
#ifndef OPREG_TESTS_DRIVER_ENGINE_H
#define OPREG_TESTS_DRIVER_ENGINE_H

#include "opreg/opreg_plugin.h"

/* Makes a stream, weights, plans and buffers on the device, runs three problems, one of them in a
 * captured graph with events around it, reads a result back, and takes everything down again, what
 * ever failed.  The status is the first failure's, and opreg_last_error its text. */
opreg_status engine_step(opreg_registry *reg, const opreg_device *dev);

#endif /* OPREG_TESTS_DRIVER_ENGINE_H */
