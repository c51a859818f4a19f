/* The scheduler of the simulated GPU: one fiber per thread that has started and not ended. A fiber whose thread has
 * ended continues with the next thread, so kernels in which no thread waits use a single fiber.
 *
 * AddressSanitizer is told of every change of stacks, race.h of everything that orders threads. */
#include "tests/cuda_model/cuda_model.h"
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/race.h"
#include "tests/cuda_model/sanitizer.h"
#include "tests/cuda_model/stream.h"
#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

/* Saves the callee-saved registers (x86-64, System V) on the current stack and the stack pointer in *left, and
 * continues with the stack pointer `to`, saved by an earlier call or made for a new stack. The rounding mode is not
 * changed. swapcontext would make a system call for the signal mask each time, and AddressSanitizer's version would
 * forget the state of the other stack. */
extern "C" void d9_model_change_stacks(void **left, void *to);
asm(R"(
.pushsection .text
.type d9_model_change_stacks, @function
d9_model_change_stacks:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size d9_model_change_stacks, . - d9_model_change_stacks
.popsection
)");

d9_model_place d9_model_here;

namespace {

constexpr size_t stack_bytes = 128 << 10;

/* Stacks begin at one of several offsets, because caches hold few lines with equal offsets. */
constexpr size_t stack_offsets = 9, stack_offset_bytes = 448;

enum class wait { none, turn, barrier, cluster, warp }; /* turn: lets other threads run first */

struct fiber {            /* a stack on which threads run, one after another */
    void *left = nullptr; /* stack pointer while it does not run */
    std::unique_ptr<char[]> stack;
    size_t unused = 0;    /* bytes at its end */
    void *fake = nullptr; /* AddressSanitizer's state of the stack while it does not run */
};

struct thread_state {
    bool ended = false;
    fiber *on = nullptr;
    wait waits = wait::none;
    const char *file = nullptr; /* where it waits */
    int line = 0;
    /* exchange of a warp */
    d9_model_exchange kind = D9_MODEL_SHUFFLE;
    unsigned mask = 0;
    uint64_t value = 0;
    int source = 0;
};

struct shared_array { /* of one block of a running cluster */
    size_t block;     /* block in the cluster */
    const void *tag;
    const char *name;
    size_t bytes;
    unsigned char *data;
    std::unique_ptr<unsigned char[]> memory;
};

struct cluster {
    dim3 first;                        /* position of its first block */
    size_t index = 0;                  /* in the grid */
    std::vector<thread_state> threads; /* block after block */
    std::vector<d9_race_thread> races; /* per thread; empty without the race check */
    std::vector<int> order;            /* order in which threads start and continue, warp by warp */
    size_t at = 0;                     /* in `order`: the current warp */
    size_t begun = 0, warp_end = 0;    /* in `order`: the first thread not started; the end of the current warp */
    size_t next = 0;                   /* in `order`: the first thread of the current warp that has not had its turn */
    std::vector<shared_array> shared;
};

struct machine {               /* the state of the simulated GPU */
    void *scheduler = nullptr; /* stack pointer while a fiber runs */
    void *scheduler_fake = nullptr;
    bool scheduler_left = false; /* the scheduler, not a fiber, resumes the next fiber */
    const void *scheduler_stack = nullptr;
    size_t scheduler_bytes = 0;
    std::vector<std::unique_ptr<fiber>> fibers; /* kept between launches */
    std::vector<fiber *> free;
    size_t block_threads = 0, dynamic_bytes = 0;
    cluster clusters[3]; /* clusters that run concurrently */
    std::vector<cluster *> live;
    cluster *in = nullptr; /* the running cluster */
    int running = -1;      /* its running thread */
    d9_model_body *body = nullptr;
    const void *arguments = nullptr; /* of the body */
    std::string failure, test;
    int error = 0;                                       /* of the failure */
    std::set<std::pair<std::string, std::string>> rows;  /* kernel, test */
    std::set<std::pair<std::string, std::string>> waits; /* file:line of a barrier, test */
    std::set<std::pair<std::string, std::string>> fences;
    std::string dropped;              /* the barrier or fence to ignore */
    const char *noted_file = nullptr; /* the barrier or fence that was last recorded */
    int noted_line = 0;
    uint64_t word = 0; /* state of the random generator */
    unsigned seed = 0, launches = 0, clusters_run = 0;
};

machine m;

/* A random number below `count` (linear congruential). */
size_t draw(size_t count) {
    m.word = m.word * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(m.word >> 33) % count;
}

/* Fisher-Yates shuffle. */
template <typename T> void shuffle(T *numbers, size_t count) {
    for (size_t i = count; i > 1; i--) std::swap(numbers[i - 1], numbers[draw(i)]);
}

thread_state &state_of(int thread) { return m.in->threads[static_cast<size_t>(thread)]; }

void set_running(int thread) {
    const unsigned size = static_cast<unsigned>(m.block_threads), width = d9_model_here.block_size.x;
    unsigned t = static_cast<unsigned>(thread);
    d9_model_place &here = d9_model_here;
    m.running = thread;
    here.block.x = m.in->first.x, here.block.y = m.in->first.y, here.block.z = m.in->first.z;
    if (t >= size) here.block.y += t / size, t %= size; /* most kernels need no division */
    here.thread.x = t, here.thread.y = here.thread.z = 0;
    if (t >= width) {
        const unsigned height = here.block_size.y;
        here.thread.x = t % width, here.thread.y = t / width % height, here.thread.z = t / width / height;
    }
    if (!m.in->races.empty())
        d9_race_run(&m.in->races[static_cast<size_t>(thread)], state_of(thread).on->stack.get(), stack_bytes);
}

void fiber_main();

/* Prepares a fiber, new or interrupted by a failed launch, to run fiber_main from its beginning. */
void prepare(fiber *f) {
    d9_memory_allow(f->stack.get(), stack_bytes);
    void **end = reinterpret_cast<void **>(f->stack.get() + stack_bytes - f->unused);
    *--end = nullptr; /* return address of fiber_main */
    *--end = reinterpret_cast<void *>(fiber_main);
    for (int kept = 0; kept < 6; kept++) *--end = nullptr;
    f->left = end;
    f->fake = nullptr;
}

/* Takes a free fiber, or makes one. */
fiber *take_fiber() {
    if (m.free.empty()) {
        m.fibers.push_back(std::make_unique<fiber>());
        m.fibers.back()->stack.reset(new char[stack_bytes]);
        m.fibers.back()->unused = m.fibers.size() % stack_offsets * stack_offset_bytes;
        prepare(m.fibers.back().get());
        m.free.push_back(m.fibers.back().get());
    }
    fiber *f = m.free.back();
    m.free.pop_back();
    return f;
}

/* Assigns the current warp's next thread to the fiber. False: all threads of the warp have started. */
bool take_next(fiber *on) {
    if (m.in->begun >= m.in->warp_end) return false;
    const int thread = m.in->order[m.in->begun++];
    state_of(thread).on = on;
    set_running(thread);
    return true;
}

/* Makes the next runnable thread of the current warp the running thread, and returns its fiber; NULL: there is none. */
fiber *next_fiber() {
    cluster &c = *m.in;
    if (c.begun < c.warp_end) {
        fiber *f = take_fiber();
        take_next(f);
        return f;
    }
    while (c.next < c.warp_end) {
        const int thread = c.order[c.next++];
        const thread_state &t = state_of(thread);
        if (t.ended || t.waits != wait::none) continue;
        set_running(thread);
        return t.on;
    }
    return nullptr;
}

/* Called on a fiber's stack right after the change to it; records the scheduler's stack if the scheduler ran before.
 * fake: kept when this stack was left; NULL: a new stack. */
void arrive(void *fake) {
    const void *bottom = nullptr;
    size_t bytes = 0;
    d9_memory_arrive(fake, &bottom, &bytes);
    if (m.scheduler_left) m.scheduler_stack = bottom, m.scheduler_bytes = bytes;
    m.scheduler_left = false;
}

/* Continues on the fiber of the warp's next runnable thread, or on the scheduler's stack if there is none. */
void leave(fiber *from) {
    const fiber *to = next_fiber();
    d9_memory_leave(&from->fake, to ? to->stack.get() : m.scheduler_stack, to ? stack_bytes : m.scheduler_bytes);
    d9_model_change_stacks(&from->left, to ? to->left : m.scheduler);
    arrive(from->fake);
}

void fiber_main() {
    arrive(nullptr);
    fiber *self = state_of(m.running).on;
    for (;;) {
        do {
            m.body(m.arguments);
            thread_state &state = state_of(m.running);
            state.ended = true;
            state.on = nullptr;
        } while (take_next(self));
        m.free.push_back(self);
        leave(self); /* returns once the fiber has a thread again */
    }
}

/* Runs each runnable thread of the current warp until it waits or ends. */
void run_warp() {
    const fiber *to = next_fiber();
    if (!to) return;
    m.scheduler_left = true;
    d9_memory_leave(&m.scheduler_fake, to->stack.get(), stack_bytes);
    d9_model_change_stacks(&m.scheduler, to->left);
    d9_memory_arrive(m.scheduler_fake, nullptr, nullptr);
    if (!m.in->races.empty()) d9_race_run(nullptr, nullptr, 0);
    m.running = -1;
}

std::string where(const thread_state &t) { return std::string(t.file) + ":" + std::to_string(t.line); }

/* Compares the file names' pointers first: equal names mostly are one string in memory, so strcmp rarely runs. */
bool same_place(const thread_state &a, const thread_state &b) {
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void fail(const std::string &why, int error = D9_MODEL_LAUNCH_FAILURE) {
    if (!m.failure.empty()) return;
    m.failure = why;
    m.error = error;
}

/* ---- waiting threads: the functions open_... return true if they let some of them continue ---- */

/* Opens the barrier at which threads [begin, end) of a block or cluster wait, if all have reached it. */
bool open_barrier(wait kind, size_t begin, size_t end) {
    std::vector<thread_state> &threads = m.in->threads;
    const thread_state *first = nullptr;
    bool ended = false;
    for (size_t i = begin; i < end; i++) {
        const thread_state &t = threads[i];
        ended = ended || t.ended;
        if (t.waits == wait::warp || t.waits == wait::turn) return false;
        if (t.waits == kind && !first) first = &t;
    }
    if (!first) return false;
    for (size_t i = begin; i < end; i++) {
        const thread_state &t = threads[i];
        if (!t.ended && !same_place(t, *first))
            fail("divergent barrier: threads wait at " + where(*first) + " and at " + where(t));
    }
    if (ended)
        fail("divergent barrier: threads wait at " + where(*first) +
             " which others have not reached before they ended");
    if (!m.failure.empty()) return false;
    for (size_t i = begin; i < end; i++) threads[i].waits = wait::none;
    d9_race_meet(m.in->races, begin, end, ~0u);
    return true;
}

/* Opens the barriers of the blocks or, if none can open, the cluster's. */
bool open_barriers() {
    const size_t count = m.in->threads.size();
    bool opened = false;
    for (size_t begin = 0; begin < count && m.failure.empty(); begin += m.block_threads)
        opened |= open_barrier(wait::barrier, begin, begin + m.block_threads);
    return opened || (m.failure.empty() && open_barrier(wait::cluster, 0, count));
}

size_t lanes_from(size_t begin, size_t threads) { return threads - begin < 32 ? threads - begin : 32; }

/* Gives each lane of the mask its result. */
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

bool open_warp(size_t begin) { /* completes an exchange of the warp if all lanes of its mask have arrived */
    const size_t lanes = lanes_from(begin, m.in->threads.size());
    thread_state *warp = &m.in->threads[begin], *first = nullptr;
    for (size_t lane = 0; lane < lanes && !first; lane++)
        if (warp[lane].waits == wait::warp) first = &warp[lane];
    if (!first) return false;
    for (size_t lane = 0; lane < 32; lane++) {
        if (!(first->mask >> lane & 1)) continue;
        if (lane >= lanes || warp[lane].ended)
            return fail("an exchange misses a lane that has ended, at " + where(*first)), false;
        if (warp[lane].waits != wait::warp) return false;
        if (!same_place(warp[lane], *first) || warp[lane].mask != first->mask)
            return fail("lanes of one warp exchange at " + where(*first) + " and at " + where(warp[lane])), false;
    }
    if (first->kind == D9_MODEL_SYNC) d9_race_meet(m.in->races, begin, begin + lanes, first->mask);
    exchange(warp, first->mask);
    return m.failure.empty();
}

/* ---- clusters; most consist of one block ---- */

/* Sets the order of a cluster's threads: ascending in turns 0, 3, ..., descending in turns 1, 4, ...; in turns 2, 5,
 * ... the warps are shuffled, and the lanes within each. */
void set_order(std::vector<int> *order, size_t threads, unsigned turn) {
    std::vector<int> warps((threads + 31) / 32);
    for (size_t w = 0; w < warps.size(); w++) warps[w] = static_cast<int>(turn % 3 == 1 ? warps.size() - 1 - w : w);
    if (turn % 3 == 2) shuffle(warps.data(), warps.size());
    order->clear();
    for (const int w : warps) {
        const size_t begin = static_cast<size_t>(w) * 32, lanes = lanes_from(begin, threads), at = order->size();
        for (size_t i = 0; i < lanes; i++)
            order->push_back(static_cast<int>(begin + (turn % 3 == 1 ? lanes - 1 - i : i)));
        if (turn % 3 == 2) shuffle(&(*order)[at], lanes);
    }
}

/* Starts cluster number `index` of the grid. */
void begin_cluster(cluster *c, size_t index, unsigned blocks) {
    const size_t width = d9_model_here.grid_size.x, height = d9_model_here.grid_size.y / blocks;
    const size_t threads = m.block_threads * blocks;
    c->index = index;
    c->first = dim3(static_cast<unsigned>(index % width), static_cast<unsigned>(index / width % height) * blocks,
                    static_cast<unsigned>(index / width / height));
    c->threads.assign(threads, thread_state());
    d9_race_begin(&c->races, index, threads);
    c->at = c->begun = 0;
    set_order(&c->order, threads, m.clusters_run++);
}

/* Runs the current warp until each thread waits for other threads or has ended. */
void drive_warp(size_t lanes) {
    cluster &c = *m.in;
    const size_t begin = static_cast<size_t>(c.order[c.at]) / 32 * 32;
    for (size_t i = c.at; i < c.at + lanes; i++)
        if (state_of(c.order[i]).waits == wait::turn) state_of(c.order[i]).waits = wait::none;
    c.warp_end = c.at + lanes;
    do {
        c.next = c.at;
        run_warp();
    } while (open_warp(begin));
}

bool have_ended(size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        if (!m.in->threads[i].ended) return false;
    return true;
}

/* Once all threads of a block have ended, tells the race check that its shared memory is freed. */
void end_block(size_t block) {
    const size_t begin = block * m.block_threads, end = begin + m.block_threads;
    if (m.in->races.empty() || !have_ended(begin, end)) return;
    for (const shared_array &array : m.in->shared)
        if (array.block == block) d9_race_free(m.in->races, begin, end, array.data, array.bytes);
}

bool some_wait(wait kind) {
    for (const thread_state &t : m.in->threads)
        if (t.waits == kind) return true;
    return false;
}

/* Runs the next warp of the cluster; after the last one, opens barriers. False: all threads have ended. */
bool drive(cluster *c) {
    m.in = c;
    if (c->at == c->order.size()) { /* every warp has had its turn */
        if (have_ended(0, c->threads.size())) return false;
        if (!some_wait(wait::turn) && !open_barriers()) fail("deadlock: threads wait that nothing can wake");
        c->at = 0;
        return true;
    }
    const size_t begin = static_cast<size_t>(c->order[c->at]) / 32 * 32, lanes = lanes_from(begin, c->order.size());
    drive_warp(lanes);
    c->at += lanes;
    if (c->threads.size() > m.block_threads) end_block(begin / m.block_threads);
    return true;
}

/* Discards the state of a failed launch. */
void abandon() {
    for (cluster *c : m.live) c->shared.clear();
    m.free.clear();
    for (const std::unique_ptr<fiber> &f : m.fibers) {
        prepare(f.get());
        m.free.push_back(f.get());
    }
}

/* Clusters start in random order. Three run concurrently, and the next warp is taken from a random one of them. */
void run_grid(size_t clusters, unsigned blocks) {
    std::vector<unsigned> order(clusters);
    std::vector<cluster *> idle = {&m.clusters[0], &m.clusters[1], &m.clusters[2]};
    size_t begun = 0;
    m.word = (uint64_t(m.seed) << 32) + m.launches++;
    m.live.clear();
    std::iota(order.begin(), order.end(), 0u);
    shuffle(order.data(), clusters);
    while (m.failure.empty()) {
        for (; !idle.empty() && begun < clusters; idle.pop_back()) {
            begin_cluster(idle.back(), order[begun++], blocks);
            m.live.push_back(idle.back());
        }
        if (m.live.empty()) return;
        const size_t pick = draw(m.live.size());
        if (drive(m.live[pick])) continue;
        m.live[pick]->shared.clear();
        idle.push_back(m.live[pick]);
        m.live.erase(m.live.begin() + static_cast<ptrdiff_t>(pick));
    }
    abandon();
}

void wait_here(wait kind, const char *file, int line) {
    thread_state &t = state_of(m.running);
    t.waits = kind;
    t.file = file;
    t.line = line;
    leave(t.on);
}

/* "(norm_sums_kernel<8, D9_KERNEL_F16>)" -> "norm_sums_kernel" */
std::string bare_name(const char *kernel) {
    const char *from = kernel + strspn(kernel, "( ");
    return std::string(from, strcspn(from, "< )"));
}

} // namespace

/* ---- functions called by kernels ---- */

static bool is_legal(dim3 grid, dim3 block, unsigned cluster) {
    const size_t threads = size_t(block.x) * block.y * block.z;
    return threads > 0 && threads <= 1024 && grid.x > 0 && grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 &&
           grid.z > 0 && grid.z <= 65535 && cluster > 0 && cluster <= D9_MODEL_CLUSTER && grid.y % cluster == 0 &&
           (cluster == 1 || threads % 32 == 0);
}

int d9_model_launch(const char *kernel, dim3 grid, dim3 block, unsigned cluster, size_t dynamic_bytes,
                    d9_model_body *body, const void *arguments, size_t bytes) {
    int64_t block_bytes;
    int most_blocks, multiprocessors;
    d9_model_limits(&block_bytes, &most_blocks, &multiprocessors);
    if (!is_legal(grid, block, cluster) || cluster > static_cast<unsigned>(most_blocks))
        return D9_MODEL_INVALID_CONFIGURATION;
    if (dynamic_bytes > D9_MODEL_SHARED_BYTES) return D9_MODEL_INVALID_VALUE;
    if (!m.dropped.empty() && !m.failure.empty()) return m.error; /* the check without a barrier has failed already */
    int error;
    const char *from = static_cast<const char *>(arguments);
    const auto later = [=, copy = std::vector<char>(from, from + bytes)] {
        return d9_model_launch(kernel, grid, block, cluster, dynamic_bytes, body, copy.data(), bytes);
    };
    if (d9_model_queue_launch(kernel, later, &error)) return error;
    const size_t clusters = size_t(grid.x) * (grid.y / cluster) * grid.z;
    m.rows.insert({bare_name(kernel), m.test});
    m.body = body;
    m.arguments = arguments;
    m.block_threads = size_t(block.x) * block.y * block.z;
    m.dynamic_bytes = dynamic_bytes;
    d9_model_here.block_size = block;
    d9_model_here.grid_size = grid;
    d9_race_launch(m.block_threads * cluster, clusters);
    run_grid(clusters, cluster);
    if (m.failure.empty()) return 0;
    m.failure = bare_name(kernel) + ": " + m.failure;
    return m.error;
}

static size_t block_of_running_thread() { return static_cast<size_t>(m.running) / m.block_threads; }

/* Fails if a block's arrays, one after another as nvcc places them, exceed a limit, alone or with the dynamic part. */
static void check_shared_bytes(size_t block) {
    size_t bytes = 0;
    for (const shared_array &array : m.in->shared)
        if (array.block == block && array.tag != &m) bytes += (array.bytes + 15) / 16 * 16;
    if (bytes > D9_MODEL_STATIC_BYTES)
        fail(std::to_string(bytes) + " bytes of static shared memory", D9_MODEL_INVALID_VALUE);
    if (bytes + m.dynamic_bytes > D9_MODEL_SHARED_BYTES)
        fail(std::to_string(bytes) + " bytes of static and " + std::to_string(m.dynamic_bytes) +
                 " of dynamic shared memory",
             D9_MODEL_INVALID_VALUE);
}

/* Finds or makes an array, at an odd multiple of `alignment`, so that it has no larger alignment than declared. */
static shared_array &shared_of(size_t block, const void *tag, const char *name, size_t bytes, size_t alignment) {
    std::vector<shared_array> &all = m.in->shared;
    for (shared_array &array : all)
        if (array.block == block && array.tag == tag) return array;
    const size_t size = bytes + 3 * alignment;
    std::unique_ptr<unsigned char[]> memory(new unsigned char[size]);
    unsigned char *data = memory.get();
    data += (3 * alignment - reinterpret_cast<uintptr_t>(data) % (2 * alignment)) % (2 * alignment);
    memset(data, 0xff, bytes);
    d9_memory_forbid(memory.get(), static_cast<size_t>(data - memory.get()));
    d9_memory_forbid(data + bytes, size - bytes - static_cast<size_t>(data - memory.get()));
    d9_race_forget(data, bytes);
    all.push_back({block, tag, name, bytes, data, std::move(memory)});
    check_shared_bytes(block);
    return all.back();
}

void *d9_model_shared(const void *tag, const char *name, size_t bytes, size_t alignment) {
    return shared_of(block_of_running_thread(), tag, name, bytes, alignment).data;
}

void *d9_model_dynamic_shared() { return d9_model_shared(&m, "dynamic shared memory", m.dynamic_bytes, 16); }

static const shared_array *array_at(uintptr_t at) {
    for (const cluster *c : m.live)
        for (const shared_array &array : c->shared)
            if (at - reinterpret_cast<uintptr_t>(array.data) < array.bytes) return &array;
    return nullptr;
}

const void *d9_model_cluster_shared(const void *own, unsigned rank) {
    const size_t begin = rank * m.block_threads;
    const uintptr_t at = reinterpret_cast<uintptr_t>(own);
    if (begin >= m.in->threads.size()) return fail("shared memory of a block that the cluster has not"), own;
    if (have_ended(begin, begin + m.block_threads)) return fail("shared memory of a block that has ended"), own;
    const shared_array *array = array_at(at);
    if (!array || array->block != block_of_running_thread())
        return fail("an address that is not in the block's shared memory"), own;
    const size_t offset = at - reinterpret_cast<uintptr_t>(array->data);
    /* shared_of may reallocate the list that `array` points into */
    return shared_of(rank, array->tag, array->name, array->bytes, 16).data + offset;
}

/* Records a barrier or fence. False: ignore it. A separate function, so that a waiting fiber holds no string, which a
 * failed launch would leak. */
static bool note_site(std::set<std::pair<std::string, std::string>> *sites, const char *file, int line) {
    if (file == m.noted_file && line == m.noted_line) return true;
    const std::string site = std::string(file) + ":" + std::to_string(line);
    if (site == m.dropped) return false;
    sites->insert({site, m.test});
    m.noted_file = file;
    m.noted_line = line;
    return true;
}

void d9_model_barrier(const char *file, int line) {
    if (note_site(&m.waits, file, line)) wait_here(wait::barrier, file, line);
}

void d9_model_cluster_barrier(const char *file, int line) {
    if (note_site(&m.waits, file, line)) wait_here(wait::cluster, file, line);
}

/* Lets other clusters run between a thread's writes and its next atomic, then tells the race check of the fence. */
void d9_model_fence(const char *file, int line) {
    if (!note_site(&m.fences, file, line)) return;
    wait_here(wait::turn, file, line);
    d9_race_fence();
}

void d9_model_atomic(const char *name, const void *at, size_t bytes) {
    wait_here(wait::turn, name, 0);
    d9_race_atomic(at, bytes);
}

int d9_model_lane() { return m.running % 32; }

uint64_t d9_model_exchange_lanes(const char *file, int line, d9_model_exchange kind, unsigned mask, uint64_t value,
                                 int source) {
    thread_state &t = state_of(m.running);
    t.kind = kind;
    t.mask = mask;
    t.value = value;
    t.source = source;
    wait_here(wait::warp, file, line);
    return t.value;
}

/* ---- functions called by the race and alignment checks ---- */

void d9_race_found(const std::string &what) { fail("race: " + what); }

std::string d9_race_thread_at(size_t index, size_t thread) {
    const size_t width = d9_model_here.grid_size.x, blocks = m.in->threads.size() / m.block_threads;
    const size_t height = d9_model_here.grid_size.y / blocks, y = index / width % height * blocks;
    const auto number = [](size_t n) { return std::to_string(n); };
    return "thread " + number(thread % m.block_threads) + " of block (" + number(index % width) + ", " +
           number(y + thread / m.block_threads) + ", " + number(index / width / height) + ")";
}

std::string d9_race_name_of_memory(uintptr_t at) {
    const shared_array *array = array_at(at);
    if (!array) return "in global memory";
    return "at byte " + std::to_string(at - reinterpret_cast<uintptr_t>(array->data)) + " of " + array->name;
}

/* Kernels are compiled with -fsanitize=alignment but without its library, so reports come here. The access itself would
 * end the program, so the thread stops here. */
#ifdef D9_MODEL_ALIGNMENT
struct d9_misaligned {
    const char *file;
    uint32_t line, column;
    const void *type;
    unsigned char log_alignment, kind;
};
extern "C" void __ubsan_handle_type_mismatch_v1(const d9_misaligned *what, uintptr_t at);
extern "C" void __ubsan_handle_type_mismatch_v1(const d9_misaligned *what, uintptr_t at) {
    fail(d9_race_name_of_memory(at) + ": an address that is no multiple of " +
         std::to_string(1 << what->log_alignment) + ", " + what->file + ":" + std::to_string(what->line));
    if (m.running >= 0) wait_here(wait::turn, what->file, static_cast<int>(what->line));
}
#endif

/* ---- functions called by tests ---- */

const char *d9_model_failure(void) { return m.failure.c_str(); }

int d9_model_reject(const std::string &why, int error) {
    fail(why);
    return error;
}

void d9_model_begin_test(const char *name) {
    m.test = name;
    m.failure.clear();
    m.noted_file = nullptr;
}

void d9_model_seed(unsigned seed) { m.seed = seed; }

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
const char *d9_model_fence_at(size_t index, const char **test) { return row_at(m.fences, index, test); }

void d9_model_ignore(const char *site) {
    m.dropped = site ? site : "";
    m.noted_file = nullptr;
}
