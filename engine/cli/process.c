/* What the kernel knows of this process: when it was started, how much memory it has had. */
#include "cli/cli.h"
#include "core/system.h"
#include "train/trainer.h"
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Field 22 of /proc/self/stat: start in clock ticks since boot. Counted from the last ')', because the
 * command's name in field 2 may hold anything. */
static bool start_ticks(const char *stat, unsigned long long *ticks) {
    const char *field = strrchr(stat, ')');
    for (int i = 2; field && i < 22; i++) {
        field = strchr(field, ' ');
        if (field) field++;
    }
    return field && sscanf(field, "%llu", ticks) == 1;
}

/* The kernel counts from boot including suspension (CLOCK_BOOTTIME), in ticks of usually 10 ms rounded down:
 * the process may seem up to one tick older than it is, never younger. */
double d9_process_start(d9_context *context) {
    double now = d9_clock_now(), start = now;
    uint8_t *stat = NULL;
    size_t size;
    unsigned long long ticks;
    struct timespec boot;
    if (d9_file_read(context, "/proc/self/stat", &stat, &size) != D9_OK) {
        d9_context_clear(context);
    } else if (start_ticks((const char *)stat, &ticks) && clock_gettime(CLOCK_BOOTTIME, &boot) == 0) {
        double age =
            (double)boot.tv_sec + 1e-9 * (double)boot.tv_nsec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
        if (age > 0) start = now - age;
    }
    d9_release(context, stat);
    return start;
}

int64_t d9_process_peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}
