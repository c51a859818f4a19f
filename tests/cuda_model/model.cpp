/* The scheduler of the execution model: fibers by ucontext, one per thread that has started and not ended. A fiber
 * whose thread has ended takes the next one that has not begun, so kernels without barriers run on a single fiber.
 *
 * AddressSanitizer is told of every change of stacks. */
#include "tests/cuda_model/cuda_model.h"
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/sanitizer.h"

#include <ucontext.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#ifdef D9_ASAN
#include <sanitizer/common_interface_defs.h>
static void leave_stack(void **fake, const void *bottom, size_t bytes) {
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
static void enter_stack(void *fake, const void **bottom, size_t *bytes) {
    __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}
#else
static void leave_stack(void **, const void *, size_t) {}
static void enter_stack(void *, const void **, size_t *) {}
#endif

d9_model_place d9_model_here;

namespace {

constexpr size_t stack_bytes = 128 << 10;

enum class wait { none, barrier, cluster, warp };

struct fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    void *fake = nullptr;
    int thread = -1; /* -1: none; the fiber is free */
    bool begun = false;
};

struct thread_state {
    bool started = false, ended = false;
    fiber *on = nullptr;
    wait waits = wait::none;
    const char *file = nullptr; /* where it waits */
    int line = 0;
    /* a warp's exchange */
    d9_model_exchange kind = D9_MODEL_SHUFFLE;
    unsigned mask = 0;
    uint64_t value = 0;
    int source = 0;
};

struct shared_array {
    size_t block; /* of the cluster */
    const void *tag;
    size_t bytes;
    std::unique_ptr<uint64_t[]> data;
};

struct machine {
    ucontext_t scheduler;
    void *scheduler_fake = nullptr;
    const void *scheduler_stack = nullptr;
    size_t scheduler_bytes = 0;
    std::vector<std::unique_ptr<fiber>> fibers; /* kept from launch to launch */
    std::vector<fiber *> free;
    std::vector<thread_state> threads; /* of the blocks of a cluster, one block behind the other */
    size_t block_threads = 0, dynamic_bytes = 0;
    unsigned first_row = 0;        /* blockIdx.y of the cluster's first block */
    std::vector<int> order;        /* in which threads begin and go on, warp by warp */
    size_t next = 0, warp_end = 0; /* in `order`: the first that has not begun; where its warp ends */
    int running = -1;
    const std::function<void()> *body = nullptr;
    std::vector<shared_array> shared;
    std::string failure, test;
    std::set<std::pair<std::string, std::string>> rows;  /* kernel, test */
    std::set<std::pair<std::string, std::string>> waits; /* file:line of a barrier, test */
    std::string dropped;                                 /* the barrier that nobody waits at */
    const char *noted_file = nullptr;                    /* the last that was noted in `waits` */
    int noted_line = 0;
    unsigned clusters_run = 0;
};

machine m;

void place(int thread) {
    const unsigned size = static_cast<unsigned>(m.block_threads), t = static_cast<unsigned>(thread) % size;
    const unsigned width = d9_model_here.block_size.x, height = d9_model_here.block_size.y;
    m.running = thread;
    d9_model_here.block.y = m.first_row + static_cast<unsigned>(thread) / size;
    d9_model_here.thread = dim3(t % width, t / width % height, t / width / height);
}

fiber *current() { return m.threads[static_cast<size_t>(m.running)].on; }

void to_scheduler(fiber *from) {
    leave_stack(&from->fake, m.scheduler_stack, m.scheduler_bytes);
    swapcontext(&from->context, &m.scheduler);
    enter_stack(from->fake, &m.scheduler_stack, &m.scheduler_bytes);
}

void to_fiber(fiber *to) {
    leave_stack(&m.scheduler_fake, to->stack.get(), stack_bytes);
    swapcontext(&m.scheduler, &to->context);
    enter_stack(m.scheduler_fake, nullptr, nullptr);
}

/* Puts thread order[next] on the fiber. False: all of its warp have begun. */
bool take_next(fiber *on) {
    if (m.next >= m.warp_end) return false;
    const int thread = m.order[m.next++];
    thread_state &state = m.threads[static_cast<size_t>(thread)];
    state.started = true;
    state.on = on;
    on->thread = thread;
    place(thread);
    return true;
}

void fiber_main() {
    enter_stack(nullptr, &m.scheduler_stack, &m.scheduler_bytes);
    fiber *self = current();
    for (;;) {
        do {
            (*m.body)();
            thread_state &state = m.threads[static_cast<size_t>(m.running)];
            state.ended = true;
            state.on = nullptr;
        } while (take_next(self));
        self->thread = -1;
        m.free.push_back(self);
        to_scheduler(self); /* comes back with a thread */
    }
}

/* A fiber that holds no thread; one that a failed launch left in the middle starts anew. */
void prepare(fiber *f) {
    d9_memory_allow(f->stack.get(), stack_bytes);
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack.get();
    f->context.uc_stack.ss_size = stack_bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
    f->thread = -1;
    f->fake = nullptr;
}

fiber *free_fiber() {
    if (m.free.empty()) {
        m.fibers.push_back(std::make_unique<fiber>());
        m.fibers.back()->stack.reset(new char[stack_bytes]);
        prepare(m.fibers.back().get());
        m.free.push_back(m.fibers.back().get());
    }
    fiber *f = m.free.back();
    m.free.pop_back();
    return f;
}

std::string where(const thread_state &t) { return std::string(t.file) + ":" + std::to_string(t.line); }

void fail(const std::string &why) {
    if (m.failure.empty()) m.failure = why;
}

/* ---- what waits: true if it could go on ---- */

/* Threads [begin, end) of one block, or of a cluster, where all of them have come to the same barrier. */
bool open_barrier(wait kind, size_t begin, size_t end) {
    const thread_state *first = nullptr;
    bool ended = false;
    for (size_t i = begin; i < end; i++) {
        const thread_state &t = m.threads[i];
        ended = ended || t.ended;
        if (t.waits == wait::warp) return false;
        if (t.waits == kind && !first) first = &t;
    }
    if (!first) return false;
    for (size_t i = begin; i < end; i++) {
        const thread_state &t = m.threads[i];
        if (!t.ended && (t.line != first->line || strcmp(t.file, first->file) != 0))
            fail("divergent barrier: threads wait at " + where(*first) + " and at " + where(t));
    }
    if (ended) fail("divergent barrier: threads wait at " + where(*first) + " that others have ended without");
    if (!m.failure.empty()) return false;
    for (size_t i = begin; i < end; i++) m.threads[i].waits = wait::none;
    return true;
}

/* The barriers of the blocks; where none can open, the cluster's. */
bool open_barriers() {
    bool opened = false;
    for (size_t begin = 0; begin < m.threads.size() && m.failure.empty(); begin += m.block_threads)
        opened |= open_barrier(wait::barrier, begin, begin + m.block_threads);
    return opened || (m.failure.empty() && open_barrier(wait::cluster, 0, m.threads.size()));
}

/* Gives each lane what it asked for. */
void exchange(thread_state *warp, unsigned mask) {
    uint64_t result[32] = {0}, ballot = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1 && warp[lane].value) ballot |= uint64_t(1) << lane;
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        const unsigned source = static_cast<unsigned>(warp[lane].source);
        if (warp[lane].kind == D9_MODEL_SHUFFLE && !(mask >> source & 1))
            fail("lane " + std::to_string(lane) + " reads lane " + std::to_string(source) +
                 ", which takes no part, at " + where(warp[lane]));
        result[lane] = warp[lane].kind == D9_MODEL_BALLOT ? ballot : warp[source].value;
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        warp[lane].value = result[lane];
        warp[lane].waits = wait::none;
    }
}

bool open_warp(size_t begin) {
    const size_t lanes = m.threads.size() - begin < 32 ? m.threads.size() - begin : 32;
    thread_state *warp = &m.threads[begin], *first = nullptr;
    for (size_t lane = 0; lane < lanes && !first; lane++)
        if (warp[lane].waits == wait::warp) first = &warp[lane];
    if (!first) return false;
    for (size_t lane = 0; lane < 32; lane++) {
        if (!(first->mask >> lane & 1)) continue;
        if (lane >= lanes || warp[lane].ended)
            return fail("an exchange misses a lane that has ended, at " + where(*first)), false;
        if (warp[lane].waits != wait::warp) return false;
        if (warp[lane].line != first->line || strcmp(warp[lane].file, first->file) != 0 ||
            warp[lane].mask != first->mask)
            return fail("lanes of one warp exchange at " + where(*first) + " and at " + where(warp[lane])), false;
    }
    exchange(warp, first->mask);
    return m.failure.empty();
}

/* ---- a cluster; most are of one block ---- */

/* turn 0, 3 ...: ascending; 1, 4 ...: descending; 2, 5 ...: warps shuffled, and the lanes of each. */
void shuffle(int *numbers, size_t count, uint64_t *word) { /* Fisher and Yates by a congruential generator */
    for (size_t i = count; i > 1; i--) {
        *word = *word * 6364136223846793005u + 1442695040888963407u;
        std::swap(numbers[i - 1], numbers[(*word >> 33) % i]);
    }
}

size_t lanes_from(size_t begin, size_t threads) { return threads - begin < 32 ? threads - begin : 32; }

void set_order(size_t threads, unsigned turn) {
    std::vector<int> warps((threads + 31) / 32);
    uint64_t word = turn + 1;
    for (size_t w = 0; w < warps.size(); w++) warps[w] = static_cast<int>(turn % 3 == 1 ? warps.size() - 1 - w : w);
    if (turn % 3 == 2) shuffle(warps.data(), warps.size(), &word);
    m.order.clear();
    for (const int w : warps) {
        const size_t begin = static_cast<size_t>(w) * 32, lanes = lanes_from(begin, threads), at = m.order.size();
        for (size_t i = 0; i < lanes; i++)
            m.order.push_back(static_cast<int>(begin + (turn % 3 == 1 ? lanes - 1 - i : i)));
        if (turn % 3 == 2) shuffle(&m.order[at], lanes, &word);
    }
}

/* Runs the warp whose threads begin at order[at] until each waits for another warp, or has ended. */
void drive_warp(size_t at, size_t lanes) {
    for (m.warp_end = at + lanes; m.next < m.warp_end;) {
        fiber *f = free_fiber();
        take_next(f);
        to_fiber(f);
    }
    const size_t begin = static_cast<size_t>(m.order[at]) / 32 * 32;
    do {
        for (size_t i = at; i < at + lanes; i++) {
            const thread_state &t = m.threads[static_cast<size_t>(m.order[i])];
            if (t.ended || t.waits != wait::none) continue;
            place(m.order[i]);
            to_fiber(t.on);
        }
    } while (open_warp(begin));
}

void drive_all() {
    for (size_t at = 0, lanes; at < m.order.size() && m.failure.empty(); at += lanes) {
        lanes = lanes_from(static_cast<size_t>(m.order[at]) / 32 * 32, m.order.size());
        drive_warp(at, lanes);
    }
}

bool have_ended(size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        if (!m.threads[i].ended) return false;
    return true;
}

void run_cluster(size_t threads) {
    m.threads.assign(threads, thread_state());
    m.next = 0;
    set_order(threads, m.clusters_run++);
    drive_all();
    while (m.failure.empty() && !have_ended(0, threads)) {
        if (open_barriers())
            drive_all();
        else
            fail("deadlock: threads wait that nothing can wake");
    }
    m.shared.clear();
    if (m.failure.empty()) return;
    m.free.clear();
    for (const std::unique_ptr<fiber> &f : m.fibers) {
        prepare(f.get());
        m.free.push_back(f.get());
    }
}

void wait_here(wait kind, const char *file, int line) {
    thread_state &t = m.threads[static_cast<size_t>(m.running)];
    t.waits = kind;
    t.file = file;
    t.line = line;
    to_scheduler(t.on);
}

/* "(norm_sums_kernel<8, D9_KERNEL_F16>)" -> "norm_sums_kernel" */
std::string bare_name(const char *kernel) {
    const char *from = kernel + strspn(kernel, "( ");
    return std::string(from, strcspn(from, "< )"));
}

} // namespace

/* ---- what a kernel calls ---- */

static bool takes(dim3 grid, dim3 block, unsigned cluster, size_t bytes) {
    const size_t threads = size_t(block.x) * block.y * block.z;
    return threads > 0 && threads <= 1024 && grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 &&
           grid.z > 0 && grid.z <= 65535 && cluster > 0 && cluster <= D9_MODEL_CLUSTER && grid.y % cluster == 0 &&
           (cluster == 1 || threads % 32 == 0) && bytes <= D9_MODEL_SHARED_BYTES;
}

int d9_model_launch(const char *kernel, dim3 grid, dim3 block, const std::function<void()> &body, unsigned cluster,
                    size_t dynamic_bytes) {
    if (!takes(grid, block, cluster, dynamic_bytes)) return D9_MODEL_INVALID_CONFIGURATION;
    int error;
    const auto later = [=] { return d9_model_launch(kernel, grid, block, body, cluster, dynamic_bytes); };
    if (d9_model_kept(kernel, later, &error)) return error;
    m.rows.insert({bare_name(kernel), m.test});
    m.body = &body;
    m.block_threads = size_t(block.x) * block.y * block.z;
    m.dynamic_bytes = dynamic_bytes;
    d9_model_here.block_size = block;
    d9_model_here.grid_size = grid;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y += cluster)
            for (unsigned x = 0; x < grid.x; x++) {
                d9_model_here.block = dim3(x, y, z);
                m.first_row = y;
                run_cluster(m.block_threads * cluster);
                if (m.failure.empty()) continue;
                m.failure = bare_name(kernel) + ": " + m.failure;
                return D9_MODEL_LAUNCH_FAILURE;
            }
    return 0;
}

static size_t own_block() { return static_cast<size_t>(m.running) / m.block_threads; }

static shared_array &shared_of(size_t block, const void *tag, size_t bytes) {
    for (shared_array &array : m.shared)
        if (array.block == block && array.tag == tag) return array;
    const size_t words = (bytes + 7) / 8;
    m.shared.push_back({block, tag, bytes, std::unique_ptr<uint64_t[]>(new uint64_t[words])});
    memset(m.shared.back().data.get(), 0xff, words * 8);
    return m.shared.back();
}

void *d9_model_shared(const void *tag, size_t bytes) { return shared_of(own_block(), tag, bytes).data.get(); }

void *d9_model_dynamic_shared() { return d9_model_shared(&m, m.dynamic_bytes); }

const void *d9_model_cluster_shared(const void *own, unsigned rank) {
    const size_t begin = rank * m.block_threads;
    const uintptr_t at = reinterpret_cast<uintptr_t>(own);
    if (begin >= m.threads.size()) return fail("shared memory of a block that the cluster has not"), own;
    if (have_ended(begin, begin + m.block_threads)) return fail("shared memory of a block that has ended"), own;
    for (size_t i = 0; i < m.shared.size(); i++) {
        const uintptr_t from = reinterpret_cast<uintptr_t>(m.shared[i].data.get());
        if (m.shared[i].block != own_block() || at < from || at >= from + m.shared[i].bytes) continue;
        const shared_array &there = shared_of(rank, m.shared[i].tag, m.shared[i].bytes); /* may move m.shared */
        return reinterpret_cast<const char *>(there.data.get()) + (at - from);
    }
    return fail("an address that is not in the block's shared memory"), own;
}

/* False: the barrier is dropped. By itself, for what a fiber holds while it waits is lost when a launch fails. */
static bool note_barrier(const char *file, int line) {
    if (file == m.noted_file && line == m.noted_line) return true;
    const std::string site = std::string(file) + ":" + std::to_string(line);
    if (site == m.dropped) return false;
    m.waits.insert({site, m.test});
    m.noted_file = file;
    m.noted_line = line;
    return true;
}

void d9_model_barrier(const char *file, int line) {
    if (note_barrier(file, line)) wait_here(wait::barrier, file, line);
}

void d9_model_cluster_barrier(const char *file, int line) {
    if (note_barrier(file, line)) wait_here(wait::cluster, file, line);
}

int d9_model_lane() { return m.running % 32; }

uint64_t d9_model_warp(const char *file, int line, d9_model_exchange kind, unsigned mask, uint64_t value, int source) {
    thread_state &t = m.threads[static_cast<size_t>(m.running)];
    t.kind = kind;
    t.mask = mask;
    t.value = value;
    t.source = source;
    wait_here(wait::warp, file, line);
    return t.value;
}

/* ---- what a test calls ---- */

const char *d9_model_failure(void) { return m.failure.c_str(); }

int d9_model_refuse(const std::string &why, int error) {
    fail(why);
    return error;
}

void d9_model_test(const char *name) {
    m.test = name;
    m.failure.clear();
    m.noted_file = nullptr;
}

static const char *row_at(const std::set<std::pair<std::string, std::string>> &rows, size_t index, const char **test) {
    for (const auto &row : rows)
        if (index-- == 0) {
            *test = row.second.c_str();
            return row.first.c_str();
        }
    return nullptr;
}

const char *d9_model_kernel_at(size_t index, const char **test) { return row_at(m.rows, index, test); }
const char *d9_model_barrier_at(size_t index, const char **test) { return row_at(m.waits, index, test); }

void d9_model_drop_barrier(const char *site) { m.dropped = site ? site : ""; }
