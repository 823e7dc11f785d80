/* SPDX-License-Identifier: MIT
 * stand_in.c - what the stand-in drivers share: objects, failures on demand, and checks. */
#include "stand_in.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS      1024u
#define SHARED_GIVEN      (48 * 1024)
#define WHOLE_DEVICE_BYTES ((size_t)1 << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stand_in_state state = {.num_devices = 1};
static stand_in_object *objects;

__attribute__((visibility("default"))) stand_in_state *stand_in(void) { return &state; }
void stand_in_lock(void) { pthread_mutex_lock(&lock); }
void stand_in_unlock(void) { pthread_mutex_unlock(&lock); }

int stand_in_call(const char *name, int device) {
    state.calls++;
    if (state.lose_at != 0 && state.calls == state.lose_at && device >= 0) {
        state.lost |= 1 << device;
        snprintf(state.failed_call, sizeof state.failed_call, "%s", name);
    } else if (state.lose_at != 0 && state.calls == state.lose_at) {
        state.lose_at++; /* the next call that has a device */
    }
    if (device >= 0 && (state.lost >> device & 1) != 0) {
        return state.lose_code;
    }
    if (state.fail_at != 0 && state.calls == state.fail_at) {
        state.fired = 1;
        snprintf(state.failed_call, sizeof state.failed_call, "%s", name);
        return state.fail_code;
    }
    return 0;
}

int stand_in_misuse(int code, const char *name, const char *what) {
    if ((code == E_CONTEXT || code == E_CAPTURE) && (state.fired || state.lost != 0)) {
        return code; /* follows from the failure of what makes a context current or ends a capture */
    }
    if (!state.misused) {
        snprintf(state.misuse, sizeof state.misuse, "%s: %s", name, what);
    }
    state.misused = 1;
    return code;
}

/* ---- objects ------------------------------------------------------------------------------------ */

stand_in_object *stand_in_new(stand_in_kind kind, int device) {
    stand_in_object *object = calloc(1, sizeof *object);
    if (object != NULL) {
        object->kind = kind;
        object->device = device;
        object->next = objects;
        objects = object;
        state.live += kind != KIND_KERNEL;
    }
    return object;
}

stand_in_object *stand_in_find(stand_in_kind kind, const void *handle) {
    for (stand_in_object *o = objects; o != NULL; o = o->next) {
        if (o->kind == kind && (kind == KIND_MEMORY ? o->bytes : o) == handle) {
            return o;
        }
    }
    return NULL;
}

static void take_out(stand_in_object *object) {
    for (stand_in_object **at = &objects; *at != NULL; at = &(*at)->next) {
        if (*at == object) {
            *at = object->next;
            break;
        }
    }
    state.live -= object->kind != KIND_KERNEL;
    free(object->bytes);
    free(object);
}

static void take_out_module(stand_in_object *module) {
    stand_in_object *o = objects;
    while (o != NULL) {
        stand_in_object *next = o->next;
        if (o->owner == module) {
            take_out(o);
        }
        o = next;
    }
    take_out(module);
}

int stand_in_drop(const char *name, stand_in_kind kind, void *handle, int device) {
    int error = stand_in_call(name, device);
    stand_in_object *object = stand_in_find(kind, handle);
    if (object == NULL) {
        return stand_in_misuse(E_HANDLE, name, "what it destroys does not live");
    }
    if (kind == KIND_MODULE) {
        take_out_module(object);
    } else {
        take_out(object); /* also when the call fails: there is nothing else that could free it */
    }
    return error;
}

void stand_in_drop_all(int device) {
    stand_in_object *o = objects;
    while (o != NULL) {
        if (o->kind != KIND_CONTEXT && o->device == device) {
            take_out_module(o);
            o = objects;
        } else {
            o = o->next;
        }
    }
}

static int capturing(void) {
    for (stand_in_object *o = objects; o != NULL; o = o->next) {
        if (o->kind == KIND_STREAM && o->flag) {
            return 1;
        }
    }
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------- */

int stand_in_alloc(const char *name, int device, void **out, size_t bytes) {
    int error = stand_in_call(name, device);
    stand_in_object *object;
    if (error != 0) {
        return error;
    }
    state.allocations++;
    if (capturing()) {
        return stand_in_misuse(E_CAPTURE, name, "allocates while a stream captures");
    }
    if (bytes == 0) {
        return stand_in_misuse(E_VALUE, name, "allocates nothing");
    }
    if (bytes > WHOLE_DEVICE_BYTES) {
        return E_MEMORY;
    }
    object = stand_in_new(KIND_MEMORY, device);
    if (object == NULL || (object->bytes = aligned_alloc(256, (bytes + 255) / 256 * 256)) == NULL) {
        return E_MEMORY;
    }
    object->num_bytes = bytes;
    *out = object->bytes;
    return 0;
}

int stand_in_free(const char *name, int device, void *pointer) {
    if (capturing()) {
        stand_in_misuse(E_CAPTURE, name, "frees while a stream captures");
    }
    return stand_in_drop(name, KIND_MEMORY, pointer, device);
}

static int is_inside(const void *pointer, size_t bytes, int device) {
    for (stand_in_object *o = objects; o != NULL; o = o->next) {
        size_t at = (size_t)((const char *)pointer - (const char *)o->bytes);
        if (o->kind == KIND_MEMORY && o->device == device && at <= o->num_bytes &&
            bytes <= o->num_bytes - at) {
            return 1;
        }
    }
    return 0;
}

/* The stream of a call: null is the default one.  *deferred: 1 when it captures. */
static int check_stream(const char *name, int device, void *stream, int *deferred) {
    stand_in_object *object = stream != NULL ? stand_in_find(KIND_STREAM, stream) : NULL;
    *deferred = object != NULL && object->flag;
    if (stream != NULL && (object == NULL || object->device != device)) {
        return stand_in_misuse(E_HANDLE, name, "the stream is not one of this device");
    }
    return 0;
}

int stand_in_copy(const char *name, int device, void *dst, int dst_on_device, const void *src,
                  int src_on_device, size_t bytes, void *stream) {
    int deferred = 0, error = stand_in_call(name, device);
    if (error == 0) {
        error = check_stream(name, device, stream, &deferred);
    }
    if (error != 0) {
        return error;
    }
    state.copies++;
    if ((dst_on_device && !is_inside(dst, bytes, device)) ||
        (src_on_device && !is_inside(src, bytes, device))) {
        return stand_in_misuse(E_VALUE, name, "the bytes are outside every allocation");
    }
    if (!deferred && bytes > 0) {
        memmove(dst, src, bytes);
    }
    return 0;
}

int stand_in_fill(const char *name, int device, void *dst, int byte, size_t bytes, void *stream) {
    int deferred = 0, error = stand_in_call(name, device);
    if (error == 0) {
        error = check_stream(name, device, stream, &deferred);
    }
    if (error != 0) {
        return error;
    }
    if (!is_inside(dst, bytes, device)) {
        return stand_in_misuse(E_VALUE, name, "the bytes are outside every allocation");
    }
    if (!deferred && bytes > 0) {
        memset(dst, byte, bytes);
    }
    return 0;
}

/* ---- kernels ------------------------------------------------------------------------------------ */

int stand_in_kernel(const char *name, void **out, void *module, const char *kernel) {
    stand_in_object *owner = stand_in_find(KIND_MODULE, module), *object;
    int error = stand_in_call(name, owner != NULL ? owner->device : -1);
    if (owner == NULL) {
        return stand_in_misuse(E_HANDLE, name, "the module does not live");
    }
    if (error != 0) {
        return error;
    }
    if (kernel[0] == '\0') {
        return E_NOT_FOUND;
    }
    object = stand_in_new(KIND_KERNEL, owner->device);
    if (object == NULL) {
        return E_MEMORY;
    }
    object->owner = owner;
    object->flag = SHARED_GIVEN;
    *out = object;
    return 0;
}

int stand_in_launch(const char *name, int device, void *kernel, const unsigned int sizes[7],
                    void *stream, void **parameters) {
    stand_in_object *object = stand_in_find(KIND_KERNEL, kernel);
    int deferred, error = stand_in_call(name, device);
    if (error == 0) {
        error = check_stream(name, device, stream, &deferred);
    }
    if (error != 0) {
        return error;
    }
    state.launches++;
    if (object == NULL || object->device != device) {
        return stand_in_misuse(E_HANDLE, name, "the kernel is not one of this device");
    }
    if (parameters == NULL || parameters[0] == NULL) {
        return stand_in_misuse(E_VALUE, name, "there are no parameters");
    }
    for (int i = 0; i < 6; i++) {
        if (sizes[i] == 0) {
            return stand_in_misuse(E_VALUE, name, "a size of the grid is 0");
        }
    }
    if (sizes[3] * sizes[4] * sizes[5] > MOST_THREADS || sizes[1] > 65535u || sizes[2] > 65535u) {
        return stand_in_misuse(E_VALUE, name, "the grid or block is too large");
    }
    if (sizes[6] > (unsigned int)object->flag) {
        return stand_in_misuse(E_VALUE, name, "more shared memory than was asked for");
    }
    return 0;
}

/* ---- streams, graphs, events ---------------------------------------------------------------------- */

int stand_in_wait(const char *name, int device, void *stream) {
    int deferred = 0, error = stand_in_call(name, device);
    if (error == 0) {
        error = check_stream(name, device, stream, &deferred);
    }
    state.waits++;
    if (error == 0 && deferred) {
        return stand_in_misuse(E_CAPTURE, name, "waits for a stream that captures");
    }
    return error;
}

int stand_in_capturing(const char *name, void *stream, int *capturing) {
    stand_in_object *object = stream != NULL ? stand_in_find(KIND_STREAM, stream) : NULL;
    if (stream != NULL && object == NULL) {
        return stand_in_misuse(E_HANDLE, name, "the stream does not live");
    }
    *capturing = object != NULL && object->flag;
    return 0;
}

int stand_in_capture_begin(const char *name, int device, void *stream) {
    stand_in_object *object = stand_in_find(KIND_STREAM, stream);
    int error = stand_in_call(name, device);
    if (object == NULL || object->flag) {
        return stand_in_misuse(E_HANDLE, name, "the stream does not live or captures already");
    }
    if (error == 0) {
        object->flag = 1;
    }
    return error;
}

int stand_in_capture_end(const char *name, int device, void *stream, void **graph) {
    stand_in_object *object = stand_in_find(KIND_STREAM, stream);
    int error = stand_in_call(name, device);
    if (object == NULL || !object->flag) {
        return stand_in_misuse(E_HANDLE, name, "the stream does not capture");
    }
    object->flag = 0;
    if (error == 0) {
        *graph = stand_in_new(KIND_GRAPH, device);
    }
    return error;
}

int stand_in_graph_launch(const char *name, int device, void *graph, void *stream) {
    int deferred, error = stand_in_call(name, device);
    if (stand_in_find(KIND_EXEC, graph) == NULL) {
        return stand_in_misuse(E_HANDLE, name, "the graph does not live");
    }
    return error != 0 ? error : check_stream(name, device, stream, &deferred);
}

int stand_in_event_record(const char *name, int device, void *event, void *stream) {
    stand_in_object *object = stand_in_find(KIND_EVENT, event);
    int deferred, error = stand_in_call(name, device);
    if (object == NULL || object->device != device) {
        return stand_in_misuse(E_HANDLE, name, "the event is not one of this device");
    }
    if (error == 0) {
        error = check_stream(name, device, stream, &deferred);
    }
    object->flag |= error == 0;
    return error;
}

int stand_in_event_elapsed(const char *name, int device, float *ms, void *from, void *to) {
    stand_in_object *first = stand_in_find(KIND_EVENT, from);
    stand_in_object *last = stand_in_find(KIND_EVENT, to);
    int error = stand_in_call(name, device);
    if (first == NULL || last == NULL || !first->flag || !last->flag) {
        return stand_in_misuse(E_HANDLE, name, "an event was not recorded");
    }
    *ms = 0.25f;
    return error;
}
