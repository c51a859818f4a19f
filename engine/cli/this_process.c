/* This process: its start, its peak memory, the waiting of its threads, and its connection to the other processes of a
 * run. core/process.c runs other programs. */
#include "cli/cli.h"
#include "core/system.h"
#include "record/timeline.h"
#include "core/process.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Parses field 22 of /proc/self/stat: start in clock ticks since boot. Counts from the last ')', because field 2, the
 * program's name, may contain any character. */
static bool read_start_ticks(const char *stat, unsigned long long *ticks) {
    const char *field = strrchr(stat, ')');
    for (int i = 2; field && i < 22; i++) {
        field = strchr(field, ' ');
        if (field) field++;
    }
    return field && sscanf(field, "%llu", ticks) == 1;
}

/* The kernel gives the start of a process as the time since boot, including suspension (CLOCK_BOOTTIME), in ticks of
 * usually 10 ms, rounded down. The process may therefore appear up to one tick older than it is. */
double d9_this_process_start(d9_context *context) {
    double now = d9_clock_now(), start = now;
    uint8_t *stat = NULL;
    size_t size;
    unsigned long long ticks;
    struct timespec boot;
    if (d9_file_read(context, "/proc/self/stat", &stat, &size) != D9_OK) {
        d9_context_clear(context);
    } else if (read_start_ticks((const char *)stat, &ticks) && clock_gettime(CLOCK_BOOTTIME, &boot) == 0) {
        double age = (double)boot.tv_sec + 1e-9 * (double)boot.tv_nsec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
        if (age > 0) start = now - age;
    }
    d9_release(context, stat);
    return start;
}

int64_t d9_this_process_peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

/* Restarts by the real path, because as /proc/self/exe the process would be named "exe" in ps and top. If the program's
 * file was replaced, the path ends in " (deleted)", execv fails and the process continues. The variables set here also
 * prevent a second restart. */
void d9_this_process_wait_briefly(char *const *words) {
    static const char *const choices[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
    char program[D9_PROGRAM_BYTES];
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (getenv(choices[i])) return;
    if (d9_program_path(program) && setenv("OMP_WAIT_POLICY", "passive", 1) == 0 &&
        setenv("GOMP_SPINCOUNT", "10000", 1) == 0) {
        d9_processors_unbind(); /* execv keeps the mask */
        execv(program, words);
    }
}

/* If several processes run on this host, sets CUDA_VISIBLE_DEVICES so that process i of the host sees only the i-th
 * visible GPU; processes beyond the last GPU see none. A variable without a comma (one GPU, or none) is kept. If an MPI
 * has started CUDA before, the variable has no effect, and choose_device in backends/cuda/runtime.c selects the GPU. */
static void choose_gpu(d9_context *context, const d9_parallel *parallel) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char number[24];
    if (parallel->host_ranks <= 1 || (list && !strchr(list, ','))) return;
    snprintf(number, sizeof number, "%d", parallel->host_rank);
    if (d9_gpu_choose(context, number) == D9_OK) return;
    d9_context_clear(context);
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
}

d9_status d9_cli_connect_processes(d9_cli *cli) {
    const d9_status status = d9_parallel_open(&cli->context, &cli->parallel);
    if (status == D9_OK) choose_gpu(&cli->context, &cli->parallel);
    if (cli->parallel.rank > 0) cli->context.log = NULL;
    return status;
}
