/* Reads the resources of machine.h from procfs and sysfs. If the file of a limit is missing, there is no limit. */
#define _GNU_SOURCE /* strsep */
#include "core/machine.h"
#include "core/process.h"
#include "core/system.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1200 };

/* Reads the beginning of a kernel file, whose size is unknown; false if it is empty or cannot be read. */
static bool read_start(const char *path, char *text, size_t size) {
    const d9_system *system = d9_system_default();
    size_t used = 0;
    int file = system->open(system->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return false;
    while (used + 1 < size) {
        ssize_t got = system->read(system->user, file, text + used, size - 1 - used);
        if (got <= 0) break;
        used += (size_t)got;
    }
    text[used] = 0;
    system->close(system->user, file);
    return used > 0;
}

static bool read_number(const char *path, int64_t *number) {
    char text[64], *end;
    if (!read_start(path, text, sizeof text)) return false;
    *number = strtoll(text, &end, 10);
    return end != text;
}

/* ---- cgroups ---- */

/* Path of this process's cgroup under `controller` ("": cgroup version 2). False if there is none. */
static bool find_group_path(const d9_machine *machine, const char *controller, char *group, size_t size) {
    char path[PATH_BYTES], text[4096];
    snprintf(path, sizeof path, "%s/self/cgroup", machine->proc);
    if (!read_start(path, text, sizeof text)) return false;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *fields = line, *id = strsep(&fields, ":"), *names = strsep(&fields, ":");
        if (!id || !names || !fields) continue;
        bool found = *controller == 0 && *names == 0;
        for (char *name; (name = strsep(&names, ","));) found |= *controller && strcmp(name, controller) == 0;
        if (!found) continue;
        snprintf(group, size, "%s", fields);
        return true;
    }
    return false;
}

/* CPU quota of one cgroup folder in processors; 0: no limit. */
static double folder_quota(const char *folder) {
    char path[PATH_BYTES], text[64], *rest;
    int64_t quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder); /* version 2: "200000 100000", or "max 100000" */
    if (read_start(path, text, sizeof text)) {
        quota = strtoll(text, &rest, 10);
        period = strtoll(rest, NULL, 10);
        return rest != text && quota > 0 && period > 0 ? (double)quota / (double)period : 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_number(path, &quota) || quota <= 0) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return read_number(path, &period) && period > 0 ? (double)quota / (double)period : 0;
}

/* Memory limit of one cgroup folder in bytes; 0: no limit. */
static double folder_memory(const char *folder) {
    char path[PATH_BYTES];
    int64_t limit;
    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (read_number(path, &limit) && limit > 0) return (double)limit;
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    return read_number(path, &limit) && limit > 0 ? (double)limit : 0;
}

/* The lowest limit from this process's cgroup up to the root of `mount` (a folder of sysfs); 0: no limit. Missing
 * folders are skipped, because a container may see its own cgroup as the root. */
static double lowest_limit(const d9_machine *machine, const char *mount, const char *controller,
                           double (*limit_of)(const char *folder)) {
    char group[512], folder[PATH_BYTES - 64];
    double least = 0;
    if (!find_group_path(machine, controller, group, sizeof group)) return 0;
    for (;;) {
        snprintf(folder, sizeof folder, "%s/%s%s", machine->sys, mount, group);
        double limit = limit_of(folder);
        if (limit > 0 && !(least > 0 && least <= limit)) least = limit;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

static double lower_limit(double a, double b) {
    if (!(a > 0)) return b;
    return b > 0 && b < a ? b : a;
}

double d9_machine_memory_limit(const d9_machine *machine) {
    return lower_limit(lowest_limit(machine, "fs/cgroup", "", folder_memory),
                       lowest_limit(machine, "fs/cgroup/memory", "memory", folder_memory));
}

/* ---- processors ---- */

/* True if a lower-numbered processor that this process may use is on the same core as `cpu`. */
static bool shares_core(const d9_machine *machine, int cpu) {
    char path[PATH_BYTES], list[256];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/thread_siblings_list", machine->sys, cpu);
    if (!read_start(path, list, sizeof list)) return false;
    for (char *at = list; *at >= '0' && *at <= '9';) { /* "0,4" or "0-1" */
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-') last = strtol(at + 1, &at, 10);
        for (long other = first; other <= last && other < cpu; other++)
            if (machine->allowed[other]) return true;
        if (*at == ',') at++;
    }
    return false;
}

/* The quota is rounded up: with a quota of 1.5 processors, two threads use all of it, because they sleep while they
 * wait for each other; a single thread would leave a third of the quota unused. */
int d9_machine_threads(const d9_machine *machine) {
    int cores = 0;
    for (int cpu = 0; cpu < machine->processors; cpu++)
        if (machine->allowed[cpu] && !shares_core(machine, cpu)) cores++;
    double quota = lower_limit(lowest_limit(machine, "fs/cgroup", "", folder_quota),
                               lowest_limit(machine, "fs/cgroup/cpu", "cpu", folder_quota));
    if (quota > 0 && quota < cores) cores = (int)ceil(quota);
    return cores > 0 ? cores : 1;
}

/* Value of `key` for the first processor in cpuinfo: "model name\t: AMD EPYC"; "" if missing. */
static void find_field(const char *cpuinfo, const char *key, char *value, size_t size) {
    const size_t length = strlen(key);
    snprintf(value, size, "%s", "");
    for (const char *line = cpuinfo; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, key, length) != 0) continue;
        const char *mark = line + length + strspn(line + length, " \t");
        if (*mark != ':') continue;
        mark += 1 + strspn(mark + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(mark, "\n"), mark);
        return;
    }
}

void d9_machine_processor(const d9_machine *machine, char *name, size_t size) {
    char path[PATH_BYTES], text[4096], brand[128], family[16], model[16];
    snprintf(path, sizeof path, "%s/cpuinfo", machine->proc);
    if (!read_start(path, text, sizeof text)) *text = 0;
    find_field(text, "model name", brand, sizeof brand);
    find_field(text, "cpu family", family, sizeof family);
    find_field(text, "model", model, sizeof model);
    /* A hypervisor may hide the model number. The remaining brand, such as "AMD EPYC", is that of many processors. */
    const bool nameless = *brand && !brand[strcspn(brand, "0123456789")] && *family && *model;
    snprintf(name, size, nameless ? "%s family %s model %s" : "%s", *brand ? brand : "processor", family, model);
}

void d9_machine_caches(const d9_machine *machine, int64_t bytes[3]) {
    enum { CACHES = 8 };
    for (int level = 0; level < 3; level++) bytes[level] = 0;
    for (int i = 0; i < CACHES; i++) {
        char folder[PATH_BYTES - 64], path[PATH_BYTES], text[64], *unit;
        int64_t level;
        snprintf(folder, sizeof folder, "%s/devices/system/cpu/cpu0/cache/index%d", machine->sys, i);
        snprintf(path, sizeof path, "%s/level", folder);
        if (!read_number(path, &level) || level < 1 || level > 3) continue;
        snprintf(path, sizeof path, "%s/type", folder); /* "Data", "Instruction", "Unified" */
        if (!read_start(path, text, sizeof text) || *text == 'I') continue;
        snprintf(path, sizeof path, "%s/size", folder); /* "48K" */
        if (!read_start(path, text, sizeof text)) continue;
        const int64_t size = strtoll(text, &unit, 10);
        bytes[level - 1] = size * (*unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1);
    }
}

/* ---- this machine ---- */

int d9_default_threads(void) {
    bool allowed[D9_PROCESSORS_MAX];
    if (d9_processors(allowed) == D9_PROCESSORS_MAX) return 1;
    return d9_machine_threads(&(d9_machine){"/proc", "/sys", allowed, D9_PROCESSORS_MAX});
}

void d9_processor_name(char *name, size_t size) {
    d9_machine_processor(&(d9_machine){.proc = "/proc", .sys = "/sys"}, name, size);
}

void d9_cache_sizes(int64_t bytes[3]) { d9_machine_caches(&(d9_machine){.proc = "/proc", .sys = "/sys"}, bytes); }

int64_t d9_memory_bytes(void) {
    double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return (int64_t)lower_limit(all, d9_machine_memory_limit(&(d9_machine){.proc = "/proc", .sys = "/sys"}));
}
