/* The GPUs of --devices, which are opened before anything is written. */
#include "cli/runs.h"
#include "core/gpu.h"
#include "core/system.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* D9_USAGE if an arm has a backend that uses no GPU. */
static d9_status check_backends(d9_context *context, const d9_experiment *experiment) {
    for (int i = 0; i < experiment->arm_count; i++) {
        const char *backend = experiment->arms[i].config->backend;
        if (strcmp(backend, "auto") != 0 && strcmp(backend, "cuda") != 0)
            return d9_fail(context, D9_USAGE, "--devices: the arm %s has backend %s, which uses no GPU (auto, cuda)",
                           experiment->arms[i].name, backend);
    }
    return D9_OK;
}

/* Selects the worker's GPU and returns D9_DEVICE if there is none of this name. */
static d9_status open_gpu(d9_context *context, const char *name) {
    d9_device_info info;
    d9_status status = d9_gpu_choose(context, name);
    if (status == D9_OK) status = d9_backend_describe(context, "cuda", 0, &info);
    if (status == D9_OK) return D9_OK;
    const d9_context why = *context;
    d9_context_clear(context);
    return d9_fail(context, status, "--devices: GPU %s: %s", name, why.message);
}

/* Opens a worker's GPU in a process of its own, because a forked process cannot use CUDA after its parent did. */
static d9_status check_gpu(d9_context *context, const char *name) {
    const d9_system *system = context->system;
    char message[sizeof context->message] = "";
    int state = 0, ends[2];
    if (pipe(ends) != 0) return d9_fail(context, D9_DEVICE, "cannot create a pipe for the GPUs");
    const pid_t child = fork();
    if (child == 0) {
        const d9_status status = open_gpu(context, name);
        const ssize_t put = system->write(system->user, ends[1], context->message, strlen(context->message));
        (void)put; /* the parent gets the exit status in any case */
        _exit((int)status);
    }
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    system->close(system->user, ends[1]);
    const ssize_t got = system->read(system->user, ends[0], message, sizeof message - 1);
    system->close(system->user, ends[0]);
    if (child > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0) return D9_OK;
    if (child < 0 || !WIFEXITED(state) || got <= 0)
        return d9_fail(context, D9_DEVICE, "--devices: GPU %s could not be opened", name);
    return d9_fail(context, (d9_status)WEXITSTATUS(state), "%s", message);
}

d9_status d9_runs_check_devices(const d9_runs *runs) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    if (!runs->work.devices) return D9_OK;
    D9_TRY(check_backends(context, runs->experiment));
    for (int i = 0; i < runs->work.worker_count; i++) D9_TRY(check_gpu(context, runs->work.devices[i]));
done:
    return status;
}
