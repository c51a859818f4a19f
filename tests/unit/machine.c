/* Default threads, memory limits, processor names and cache sizes, read from fabricated trees of /proc and /sys. */
#include "core/machine.h"
#include "core/system.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { MAX_FILES = 6, MAX_PROCESSORS = 1024, GIB = 1 << 30 };

typedef struct file {
    const char *path, *text;
} file;

/* A machine with `cores` cores of `siblings` hyperthreads: thread t of core c is processor c + t * cores or, if
 * `neighbours`, c * siblings + t. */
typedef struct tree {
    const char *what;
    int cores, siblings;
    bool neighbours;
    const char *allowed; /* processors of the affinity mask, like "0-3,8"; NULL: all */
    const char *group;   /* text of /proc/self/cgroup; NULL: no such file */
    file files[MAX_FILES];
    int threads;     /* expected */
    double gibibyte; /* expected memory limit; 0: none */
} tree;

#define V1     "12:cpuset:/x\n4:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/box\n"
#define V2     "0::/user.slice/app.scope\n"
#define CGROUP "sys/fs/cgroup/"
#define APP    CGROUP "user.slice/app.scope/"

static const tree trees[] = {
    {"eight cores and nothing else", 8, 1, .threads = 8},
    {"no cgroup limits", 8, 1, .group = V2, .files = {{CGROUP "cpu.max", "max 100000\n"}}, .threads = 8},
    {"hyperthreads of a core numbered far apart", 4, 2, .threads = 4},
    {"hyperthreads of a core numbered side by side", 4, 2, true, .threads = 4},
    {"four hyperthreads per core", 2, 4, true, .threads = 2},
    {"many cores", 72, 2, .threads = 72},
    {"quota 150% of eight cores", 8, 1, .group = V2, .files = {{APP "cpu.max", "150000 100000\n"}}, .threads = 2},
    {"quota 20%", 8, 1, .group = V2, .files = {{APP "cpu.max", "20000 100000\n"}}, .threads = 1},
    {"quota 300%, another period", 8, 1, .group = V2, .files = {{APP "cpu.max", "30000 10000\n"}}, .threads = 3},
    {"quota beyond the machine", 2, 1, .group = V2, .files = {{APP "cpu.max", "800000 100000\n"}}, .threads = 2},
    {"the least quota is further up", 16, 1, .group = V2,
     .files = {{CGROUP "user.slice/cpu.max", "400000 100000\n"}, {APP "cpu.max", "max 100000\n"}}, .threads = 4},
    {"the least quota is further down", 16, 1, .group = V2,
     .files = {{CGROUP "user.slice/cpu.max", "800000 100000\n"}, {APP "cpu.max", "500000 100000\n"}}, .threads = 5},
    {"a quota that the group above does not grant", 16, 1, .group = V2,
     .files = {{CGROUP "user.slice/cpu.max", "300000 100000\n"}, {APP "cpu.max", "600000 100000\n"}}, .threads = 3},
    {"a container that sees itself as the root", 8, 1, .group = "0::/\n",
     .files = {{CGROUP "cpu.max", "250000 100000\n"}, {CGROUP "memory.max", "1073741824\n"}}, .threads = 3,
     .gibibyte = 1},
    {"a group outside of what the container sees", 8, 1, .group = "0::/../../pod7\n",
     .files = {{CGROUP "cpu.max", "600000 100000\n"}}, .threads = 6},
    {"version 1", 8, 1, .group = V1,
     .files = {{CGROUP "cpu/box/cpu.cfs_quota_us", "400000\n"},
               {CGROUP "cpu/box/cpu.cfs_period_us", "100000\n"},
               {CGROUP "memory/box/memory.limit_in_bytes", "2147483648\n"}},
     .threads = 4, .gibibyte = 2},
    {"version 1 without a quota", 8, 1, .group = V1,
     .files = {{CGROUP "cpu/box/cpu.cfs_quota_us", "-1\n"}, {CGROUP "cpu/box/cpu.cfs_period_us", "100000\n"}},
     .threads = 8},
    {"version 1 in a container: only the root is there", 8, 1, .group = V1,
     .files = {{CGROUP "cpu/cpu.cfs_quota_us", "200000\n"},
               {CGROUP "cpu/cpu.cfs_period_us", "100000\n"},
               {CGROUP "memory/memory.limit_in_bytes", "3221225472\n"}},
     .threads = 2, .gibibyte = 3},
    {"both versions: the least counts", 8, 1, .group = V1 "0::/box\n",
     .files = {{CGROUP "cpu/box/cpu.cfs_quota_us", "600000\n"},
               {CGROUP "cpu/box/cpu.cfs_period_us", "100000\n"},
               {CGROUP "box/cpu.max", "300000 100000\n"}},
     .threads = 3},
    {"affinity smaller than the quota", 8, 1, .allowed = "2-3", .group = V2,
     .files = {{APP "cpu.max", "400000 100000\n"}}, .threads = 2},
    {"quota smaller than the affinity", 8, 1, .allowed = "0-5", .group = V2,
     .files = {{APP "cpu.max", "400000 100000\n"}}, .threads = 4},
    {"affinity to two hyperthreads of one core", 4, 2, .allowed = "1,5", .threads = 1},
    {"affinity to the upper hyperthreads alone", 4, 2, .allowed = "4-7", .threads = 4},
    {"affinity to processors beyond the first hundreds", 512, 2, .allowed = "500-503,1012-1015", .threads = 4},
    {"files that hold nonsense", 4, 1, .group = "nonsense\n::\n0\n" V2,
     .files = {{APP "cpu.max", "much\n"}, {CGROUP "cpu.max", "100000\n"}, {APP "memory.max", "max\n"}}, .threads = 4},
};

static void set_allowed(const tree *t, bool allowed[MAX_PROCESSORS]) {
    const char *at = t->allowed;
    for (int cpu = 0; cpu < MAX_PROCESSORS; cpu++) allowed[cpu] = !at && cpu < t->cores * t->siblings;
    while (at && *at) {
        char *rest;
        long first = strtol(at, &rest, 10), last = *rest == '-' ? strtol(rest + 1, &rest, 10) : first;
        for (long cpu = first; cpu <= last; cpu++) allowed[cpu] = true;
        at = *rest == ',' ? rest + 1 : rest;
    }
}

/* Writes the list of sibling threads of each allowed processor. The other processors get no file. */
static void write_siblings(const char *root, const tree *t, const bool *allowed) {
    for (int cpu = 0; cpu < t->cores * t->siblings; cpu++) {
        char path[128], list[64] = "";
        const int core = t->neighbours ? cpu / t->siblings : cpu % t->cores;
        if (!allowed[cpu]) continue;
        for (int s = 0; s < t->siblings && !t->neighbours; s++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", s ? "," : "", core + s * t->cores);
        if (t->neighbours) snprintf(list, sizeof list, "%d-%d", core * t->siblings, (core + 1) * t->siblings - 1);
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        run_write_text(root, path, list);
    }
}

static void check_tree(const tree *t) {
    bool allowed[MAX_PROCESSORS];
    const char *root = run_folder_new();
    set_allowed(t, allowed);
    write_siblings(root, t, allowed);
    if (t->group) run_write_text(root, "proc/self/cgroup", t->group);
    for (int i = 0; i < MAX_FILES && t->files[i].path; i++) run_write_text(root, t->files[i].path, t->files[i].text);
    const d9_machine machine = {run_path(root, "proc"), run_path(root, "sys"), allowed, MAX_PROCESSORS};
    int threads = d9_machine_threads(&machine);
    double limit = d9_machine_memory_limit(&machine) / GIB;
    if (threads != t->threads) fail_msg("%s: %d threads, %d expected", t->what, threads, t->threads);
    if (limit != t->gibibyte) fail_msg("%s: limit %g GiB, %g expected", t->what, limit, t->gibibyte);
}

TEST(machines_get_their_threads_and_memory_limits) {
    context.system = run_system();
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) check_tree(&trees[i]);
}

TEST(a_machine_without_files_has_its_processors) {
    const bool two[] = {true, true}, none[] = {false};
    char name[32];
    assert_int_equal(d9_machine_threads(&(d9_machine){"/nowhere", "/nowhere", two, 2}), 2);
    assert_int_equal(d9_machine_threads(&(d9_machine){"/nowhere", "/nowhere", none, 1}), 1);
    assert_true(d9_machine_memory_limit(&(d9_machine){"/nowhere", "/nowhere", two, 2}) == 0);
    d9_machine_processor(&(d9_machine){"/nowhere", "/nowhere", two, 2}, name, sizeof name);
    assert_string_equal(name, "processor");
}

TEST_WITH(const char *root, the_processor_is_named, run_folder_set_up) {
    char name[32], numbered[48];
    const char *proc = run_path(root, "proc");
    run_write_text(root, "proc/cpuinfo",
                   "cpu family\t: 6\nmodel\t: 7\nmodel name\t: A Fine Processor @ 2 GHz\nmodel name\t: another\n");
    d9_machine_processor(&(d9_machine){.proc = proc, .sys = proc}, name, sizeof name);
    /* a name without a digit is completed by family and model */
    run_write_text(root, "proc/cpuinfo", "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: A Fine Processor\n");
    d9_machine_processor(&(d9_machine){.proc = proc, .sys = proc}, numbered, sizeof numbered);
    assert_string_equal(name, "A Fine Processor @ 2 GHz");
    assert_string_equal(numbered, "A Fine Processor family 26 model 2");
}

/* Cache sizes are read from sysfs, where a size is one line in K or M. Instruction caches and level 4 do not count. */
TEST_WITH(const char *root, the_caches_are_read, run_folder_set_up) {
    static const file files[] = {{"index0/level", "1\n"}, {"index0/type", "Data\n"},        {"index0/size", "48K\n"},
                                 {"index1/level", "1\n"}, {"index1/type", "Instruction\n"}, {"index1/size", "32K\n"},
                                 {"index2/level", "2\n"}, {"index2/type", "Unified\n"},     {"index2/size", "1024K\n"},
                                 {"index3/level", "3\n"}, {"index3/type", "Unified\n"},     {"index3/size", "32M\n"},
                                 {"index4/level", "4\n"}, {"index4/type", "Unified\n"},     {"index4/size", "128M\n"}};
    int64_t bytes[3] = {-1, -1, -1};
    d9_machine_caches(&(d9_machine){.proc = "/nowhere", .sys = "/nowhere"}, bytes);
    for (int level = 0; level < 3; level++) assert_int_equal(bytes[level], 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "devices/system/cpu/cpu0/cache/%s", files[i].path);
        run_write_text(root, path, files[i].text);
    }
    d9_machine_caches(&(d9_machine){.proc = root, .sys = root}, bytes);
    assert_ints(bytes[0], 48 << 10, bytes[1], 1 << 20, bytes[2], 32 << 20);
}
