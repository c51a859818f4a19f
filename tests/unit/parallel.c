/* Launchers of processes; sums, broadcasts and maxima over one process and over three, which mpirun starts. */
#include "core/system.h"
#include "parallel/parallel.h"
#include "tests/support/test.h"

#include <sys/resource.h>
#include <time.h>

/* ---- launchers ---- */

static const char *find_variable(void *user, const char *name) {
    const char *const *set = user; /* name, value, ... NULL */
    for (; *set; set += 2)
        if (strcmp(set[0], name) == 0) return set[1];
    return NULL;
}

static void expect_launch(const char *const *set, int ranks, bool connects, const char *program) {
    const d9_launch found = d9_launch_of(find_variable, (void *)(uintptr_t)set);
    assert_ints(found.ranks, ranks, found.connects, connects);
    assert_true(program ? found.command && strncmp(found.command, program, strlen(program)) == 0 : !found.command);
}

TEST(launchers_are_recognised_by_their_variables) {
    expect_launch((const char *[]){NULL}, 0, false, NULL);
    expect_launch((const char *[]){"OMPI_COMM_WORLD_SIZE", "4", NULL}, 4, true, "mpirun");
    expect_launch((const char *[]){"PMI_SIZE", "3", "SLURM_STEP_NUM_TASKS", "3", NULL}, 3, true, "srun");
    expect_launch((const char *[]){"PMI_SIZE", "3", NULL}, 3, true, "mpiexec");
    expect_launch((const char *[]){"PMIX_RANK", "0", "SLURM_STEP_NUM_TASKS", "8", NULL}, 8, true, "srun");
    expect_launch((const char *[]){"SLURM_STEP_NUM_TASKS", "8", NULL}, 8, false, "srun");
    expect_launch((const char *[]){"OMPI_COMM_WORLD_SIZE", "x", "PMI_SIZE", "-2", NULL}, 0, false, NULL);
}

TEST(one_process_keeps_its_values) {
    float value = 3;
    int number = 2;
    d9_parallel one = {.ranks = 1};
    for (int i = 0; i < 2; i++) {
        d9_parallel *parallel = i ? &one : NULL;
        assert_int_equal(d9_parallel_sum(&context, parallel, &value, 1, false), D9_OK);
        assert_int_equal(d9_parallel_broadcast(&context, parallel, &value, sizeof value), D9_OK);
        assert_int_equal(d9_parallel_maximum(&context, parallel, &number), D9_OK);
        assert_ints(d9_parallel_ranks(parallel), 1, d9_parallel_rank(parallel), 0);
    }
    assert_true(value == 3 && number == 2);
}

/* ---- run in each of three processes ---- */

/* Number i of process `rank`. The rounded sum over the processes can depend on the order of addition. */
static double number_of(int rank, int64_t i) { return ldexp(1.0 / (double)(i % 97 + 3 + rank), (int)(i % 31) * rank); }

/* Memory of the sums: from malloc; shared by the processes; or not shared, because process 1 can open no file. */
typedef enum memory_kind { ALONE, SHARED, NOT_SHARED, MEMORY_KINDS } memory_kind;

static bool allocate(d9_parallel *parallel, memory_kind kind, int64_t bytes, void **memory) {
    struct rlimit files, none;
    if (kind == ALONE) return (*memory = malloc((size_t)bytes)) != NULL;
    getrlimit(RLIMIT_NOFILE, &files);
    none = (struct rlimit){0, files.rlim_max};
    if (kind == NOT_SHARED && parallel->rank == 1) setrlimit(RLIMIT_NOFILE, &none);
    const d9_status status = d9_parallel_allocate(&context, parallel, bytes, "a test", memory);
    setrlimit(RLIMIT_NOFILE, &files);
    return status == D9_OK;
}

/* Number of areas of shared memory (memfd), its own and other processes', that this process has mapped. */
static int count_areas(void) {
    char line[600];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) count += strstr(line, "memfd:dawn9") != NULL;
    if (maps) fclose(maps);
    return count;
}

/* `wide`: values are doubles; otherwise floats. */
static void set_value(void *values, int64_t i, bool wide, double value) {
    if (wide)
        ((double *)values)[i] = value;
    else
        ((float *)values)[i] = (float)value;
}

static double get_value(const void *values, int64_t i, bool wide) {
    return wide ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* The sum of all processes' values i in the order of their ranks, in the type of the values. */
static double ordered_sum(const d9_parallel *parallel, int64_t i, bool wide) {
    double all = 0;
    float narrow = 0;
    for (int r = 0; r < parallel->ranks; r++) all += number_of(r, i), narrow += (float)number_of(r, i);
    return wide ? all : (double)narrow;
}

/* Sums `count` values between two guards, in two parts. Process 1 comes late: the others must wait for it. True if the
 * sums are those of ordered_sum, the guards are unchanged, and the memory was mapped as `kind` says and unmapped. */
static bool sum_is_ordered(d9_parallel *parallel, int64_t count, bool wide, memory_kind kind) {
    const int64_t bytes = wide ? sizeof(double) : sizeof(float), first = count / 3;
    const struct timespec late = {.tv_nsec = 20000000};
    const int areas = kind == SHARED ? parallel->ranks : kind == NOT_SHARED && parallel->rank != 1;
    char *values;
    void *memory;
    if (!allocate(parallel, kind, (count + 2) * bytes, &memory)) return false;
    values = memory;
    set_value(values, 0, wide, -1), set_value(values, count + 1, wide, -1);
    for (int part = 0; part < 2; part++) {
        const int64_t begin = part ? first : 0, end = part ? count : first;
        if (parallel->rank == 1) nanosleep(&late, NULL);
        for (int64_t i = begin; i < end; i++) set_value(values, i + 1, wide, number_of(parallel->rank, i));
        if (d9_parallel_sum(&context, parallel, values + (begin + 1) * bytes, end - begin, wide) != D9_OK) return false;
    }
    bool equal = (count == 0 || count_areas() == areas) && get_value(values, 0, wide) == -1 &&
                 get_value(values, count + 1, wide) == -1;
    for (int64_t i = 0; i < count; i++)
        equal = equal && get_value(values, i + 1, wide) == ordered_sum(parallel, i, wide);
    if (kind == ALONE)
        free(memory);
    else
        d9_parallel_release(&context, parallel, memory);
    return equal && count_areas() == 0;
}

/* Runs the checks in this process; returns what the first failed check is about, or NULL. */
static const char *run_checks(d9_parallel *parallel) {
    static const int64_t sizes[] = {0, 1, 2, 63, 1000007, 5};
    char bytes[70001];
    int greatest = parallel->rank * 10 - 5;
    if (parallel->ranks != 3 || parallel->rank < 0 || parallel->rank > 2) return "ranks";
    if (parallel->host_ranks != 3 || parallel->host_rank != parallel->rank) return "ranks of the host";
    if (parallel->host != 0) return "the host's number";
    if (parallel->sharers != 3) return "sharers of the processors";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int wide = 0; wide < 2; wide++)
            for (int kind = 0; kind < MEMORY_KINDS; kind++)
                if (!sum_is_ordered(parallel, sizes[i], wide, (memory_kind)kind)) return "sum";
    memset(bytes, 'a' + parallel->rank, sizeof bytes);
    if (d9_parallel_broadcast(&context, parallel, bytes, sizeof bytes) != D9_OK) return "broadcast";
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i] != 'a') return "bytes of the broadcast";
    if (d9_parallel_maximum(&context, parallel, &greatest) != D9_OK || greatest != 15) return "agreement";
    return NULL;
}

/* For experiments/parallel-speed.sh: times, in turn, a sum of `count` f32 numbers by exchange, one in shared memory and
 * a copy of as many numbers; process 0 prints the milliseconds of each. Returns what failed, or NULL. */
static const char *time_sums(d9_parallel *parallel, int64_t count) {
    enum { TIMES = 21, WAYS = 3 };
    static const char *const names[WAYS] = {"sums by exchange", "sums of gradients", "copies"};
    double ms[WAYS][TIMES];
    const int64_t bytes = count * (int64_t)sizeof(float);
    void *alone, *shared, *copy;
    if (!allocate(parallel, ALONE, bytes, &alone) || !allocate(parallel, SHARED, bytes, &shared) ||
        !allocate(parallel, ALONE, bytes, &copy))
        return "memory";
    memset(alone, 0, (size_t)bytes), memset(shared, 0, (size_t)bytes), memset(copy, 0, (size_t)bytes);
    for (int i = -1; i < TIMES; i++) /* the first round, which allocates and maps, is not counted */
        for (int way = 0; way < WAYS; way++) {
            int all = 0;
            if (d9_parallel_maximum(&context, parallel, &all) != D9_OK) return "agreement";
            const double start = d9_clock_now();
            if (way == 2)
                memcpy(copy, alone, (size_t)bytes);
            else if (d9_parallel_sum(&context, parallel, way ? shared : alone, count, false) != D9_OK)
                return "sum";
            if (i >= 0) ms[way][i] = 1e3 * (d9_clock_now() - start);
        }
    for (int way = 0; way < WAYS && parallel->rank == 0; way++) {
        printf("%s, ms:", names[way]);
        for (int i = 0; i < TIMES; i++) printf(" %.1f", ms[way][i]);
        printf("\n");
    }
    free(alone), free(copy);
    d9_parallel_release(&context, parallel, shared);
    return NULL;
}

static int run_as_one_of_several(void) {
    d9_parallel parallel;
    d9_context_init(&context);
    const d9_status opened = d9_parallel_open(&context, &parallel);
    const char *timed = getenv("DAWN9_TIME_SUM"), *wrong = context.message;
    if (opened == D9_OK) wrong = timed ? time_sums(&parallel, strtoll(timed, NULL, 10)) : run_checks(&parallel);
    if (wrong) fprintf(stderr, "process %d: %s is wrong\n", parallel.rank, wrong);
    d9_parallel_close(&context, &parallel, wrong ? D9_CHECK_FAILED : D9_OK);
    return wrong != NULL;
}

/* Three processes of this program; MPI's messages go through shared memory, then by TCP, as between machines. */
TEST(three_processes_add_and_agree) {
    static const char *const transports[] = {"vader", "tcp -mca btl_tcp_if_include lo"};
    char self[4096], command[4700];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    if (access(D9_BINARY_DIR "/dawn9-mpi.so", F_OK) != 0 || system("command -v mpirun >/dev/null") != 0)
        skip_for("mpi", "no dawn9-mpi.so or no mpirun");
    for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
        snprintf(command, sizeof command,
                 "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 "
                 "OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1 "
                 "ASAN_OPTIONS=detect_leaks=0 timeout 100 mpirun -np 3 --oversubscribe --bind-to none -mca btl self,%s "
                 "'%s' parallel",
                 transports[t], self);
        if (system(command) != 0) fail_msg("%s", transports[t]);
    }
}

TEST_MAIN(count, arguments) { return getenv("OMPI_COMM_WORLD_SIZE") ? run_as_one_of_several() : test_run(NULL); }
