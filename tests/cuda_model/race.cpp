/* Vector clocks of the threads of a launch, and a shadow of the memory that they access: see race.h.
 *
 * A word of four bytes has one cell, or four once it was accessed partially. A cell holds the last plain write, the
 * last atomic, and the reads since the last write. Threads are numbered across launches, so records of earlier launches
 * are recognised by their numbers and ignored. */
#include "tests/cuda_model/race.h"
#include "tests/cuda_model/cuda_model.h"
#include "tests/cuda_model/model.h"
#include <dlfcn.h>
#include <stdio.h>
#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

/* For each cluster, the clocks of its threads. own: the row of the cluster whose first thread is own_first, which is
 * looked up most; NULL: none. */
struct d9_race_knowledge {
    std::map<uint32_t, std::vector<uint32_t>> clusters;
    const uint32_t *own = nullptr;
    uint32_t own_first = 0;
};

namespace {

struct access { /* a thread's number and clock, and the instruction's address */
    uint32_t number = 0, clock = 0;
    uintptr_t code = 0;
};

/* Reads by up to 32 threads with consecutive numbers, all at one clock. by.number: the first of the 32; by.code: the
 * instruction of each thread's first read; lanes: a bit for each thread that has read; before: index of the cell's
 * previous reading, in a list; 0: none. */
struct reading {
    access by;
    uint32_t lanes = 0, before = 0;
};

struct cell { /* accesses of a word or a byte */
    access write, atomic;
    reading read; /* the latest; counts only if it is of this launch and has lanes */
};

constexpr size_t page_bytes = 4096, page_words = page_bytes / 4, remembered = 1024;
/* Value of write.number that marks a divided word: its four bytes have cells of their own, parts[write.clock].
 * write.code is then the first thread of the launch that divided it; after that launch the mark does not count. */
constexpr uint32_t divided = ~0u;

struct page_at { /* a page of cells that was used recently */
    uintptr_t number = 0;
    cell *cells = nullptr;
};

struct watcher {                      /* the state of the check */
    d9_race_thread *thread = nullptr; /* the running thread */
    uintptr_t stack = 0, stack_bytes = 0;
    uint32_t first = 1, next = 1; /* first thread of the launch; next free number */
    uint32_t cluster_threads = 1;
    std::unordered_map<uintptr_t, std::unique_ptr<cell[]>> pages;
    page_at recent[remembered];
    std::vector<std::array<cell, 4>> parts; /* of the launch */
    std::vector<reading> readings;          /* of the launch, but those that cells hold; the first is not used */
    uint32_t spare = 0;                     /* index of the first unused reading; unused readings form a list */
    /* by address of a word: operations that threads knew at their last fence before an atomic on the word */
    std::unordered_map<uintptr_t, d9_race_known> released;
};

watcher w;
bool compiled, watches; /* kernels are compiled for the check (set before `w` is constructed); it is on */

uint32_t cluster_of(uint32_t number) { return (number - w.first) / w.cluster_threads; }
uint32_t index_in_cluster(uint32_t number) { return (number - w.first) % w.cluster_threads; }

/* Merges both, with the larger clock of each thread. */
d9_race_known join(const d9_race_known &a, const d9_race_known &b) {
    if (!a || a == b) return b;
    if (!b) return a;
    auto both = std::make_shared<d9_race_knowledge>(*a);
    for (const auto &row : b->clusters) {
        std::vector<uint32_t> &to = both->clusters[row.first];
        to.resize(w.cluster_threads);
        for (size_t i = 0; i < to.size(); i++) to[i] = std::max(to[i], row.second[i]);
    }
    both->own = nullptr;
    return both;
}

/* Returns a copy of `known` that also has all operations so far of these threads, which are of one cluster. Increments
 * the threads' clocks. */
template <typename T> d9_race_known add_operations(const d9_race_known &known, const T &threads) {
    auto more = known ? std::make_shared<d9_race_knowledge>(*known) : std::make_shared<d9_race_knowledge>();
    const uint32_t cluster = cluster_of(threads[0]->number);
    std::vector<uint32_t> &row = more->clusters[cluster];
    row.resize(w.cluster_threads);
    more->own = row.data();
    more->own_first = w.first + cluster * w.cluster_threads;
    for (d9_race_thread *t : threads) row[t->number - more->own_first] = t->clock++;
    return more;
}

/* True if the running thread knows the access, by another thread of this launch. */
bool knows(const access &a) {
    const d9_race_knowledge *known = w.thread->known.get();
    if (!known) return false;
    if (known->own && a.number - known->own_first < w.cluster_threads)
        return known->own[a.number - known->own_first] >= a.clock;
    const auto row = known->clusters.find(cluster_of(a.number));
    return row != known->clusters.end() && row->second[index_in_cluster(a.number)] >= a.clock;
}

/* True if the access happened before the current operation of the running thread. */
bool before(const access &a) { return a.number < w.first || a.number == w.thread->number || knows(a); }

[[gnu::noinline]] void recall_page(uintptr_t number) { /* finds or makes the page */
    std::unique_ptr<cell[]> &page = w.pages[number];
    if (!page) page.reset(new cell[page_words]);
    w.recent[number % remembered] = {number, page.get()};
}

inline cell *cell_at(uintptr_t word) {
    const uintptr_t number = word / page_bytes;
    const page_at &recent = w.recent[number % remembered];
    if (recent.number != number) recall_page(number);
    return &recent.cells[word % page_bytes / 4];
}

bool is_read(const cell *c) { return c->read.lanes && c->read.by.number >= w.first; } /* in this launch */

/* Stores a reading in the list; returns its index. */
uint32_t store_reading(const reading &read) {
    const uint32_t at = w.spare ? w.spare : static_cast<uint32_t>(w.readings.size());
    if (!w.spare) w.readings.emplace_back();
    w.spare = w.readings[at].before;
    w.readings[at] = read;
    return at;
}

void add_reading(cell *c, const access &by, uint32_t lanes) {
    const uint32_t before = is_read(c) ? store_reading(c->read) : 0;
    c->read.by = by;
    c->read.lanes = lanes;
    c->read.before = before;
}

void drop_readings(cell *c) {
    for (uint32_t r = is_read(c) ? c->read.before : 0; r;) {
        std::swap(w.readings[r].before, w.spare);
        std::swap(r, w.spare);
    }
    c->read.lanes = 0;
}

/* A cell's copy with readings of its own. */
cell copy_of(const cell &of) {
    cell copy = of;
    if (!is_read(&of)) return copy;
    copy.read.before = 0;
    for (uint32_t r = of.read.before; r; r = w.readings[r].before) {
        reading read = w.readings[r];
        read.before = copy.read.before;
        copy.read.before = store_reading(read);
    }
    return copy;
}

[[gnu::noinline]] void split(cell *c) { /* gives each byte of the word a cell */
    w.parts.push_back({copy_of(*c), copy_of(*c), copy_of(*c), *c});
    c->write = {divided, static_cast<uint32_t>(w.parts.size() - 1), w.first};
}

/* Calls `visit` for the cells of bytes [at, at + bytes). */
template <typename F> inline void for_cells(uintptr_t at, size_t bytes, F visit) {
    for (const uintptr_t end = at + bytes; at < end;) {
        const uintptr_t word = at & ~uintptr_t(3), stop = std::min(word + 4, end);
        cell *c = cell_at(word);
        if (c->write.number == divided && c->write.code != w.first) *c = cell();
        if (c->write.number != divided && stop - at < 4) split(c);
        if (c->write.number == divided)
            for (; at < stop; at++) visit(&w.parts[c->write.clock][at - word], at);
        else
            visit(c, at);
        at = stop;
    }
}

std::string code_at(uintptr_t code) { /* an address for addr2line */
    Dl_info info;
    char text[32];
    if (!code) return "the end of its block";
    if (!dladdr(reinterpret_cast<const void *>(code), &info)) return "nowhere";
    snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(code - reinterpret_cast<uintptr_t>(info.dli_fbase)));
    return text;
}

void report(const char *does, const access &now, const char *did, const access &then, uintptr_t at) {
    const auto who = [](const access &a) {
        return d9_race_thread_at(cluster_of(a.number), index_in_cluster(a.number));
    };
    d9_race_found(who(now) + " " + does + " what " + who(then) + " " + did + ", " + d9_race_name_of_memory(at) +
                  ", and nothing orders them (addr2line -Cife PROGRAM " + code_at(now.code) + " " + code_at(then.code) +
                  ")");
}

void record_read(cell *c, const access &now, uintptr_t at) {
    if (!before(c->write)) report("reads", now, "has written", c->write, at);
    if (!before(c->atomic)) report("reads", now, "has changed by an atomic", c->atomic, at);
    const uint32_t lane = (now.number - w.first) % 32, first = now.number - lane, bit = 1u << lane;
    reading &latest = c->read;
    if (latest.by.number == first && latest.by.clock == now.clock && latest.lanes &&
        (latest.lanes & bit || latest.by.code == now.code))
        latest.lanes |= bit;
    else
        add_reading(c, {first, now.clock, now.code}, bit);
}

void check_write(const cell *c, const char *does, const access &now, uintptr_t at) {
    if (!before(c->write)) report(does, now, "has written", c->write, at);
    for (const reading *r = is_read(c) ? &c->read : nullptr; r; r = r->before ? &w.readings[r->before] : nullptr) {
        access by = r->by;
        for (uint32_t lanes = r->lanes; lanes; lanes >>= 1, by.number++)
            if (lanes & 1 && !before(by)) report(does, now, "has read", by, at);
    }
}

void record_write(cell *c, const char *does, const access &now, uintptr_t at) {
    check_write(c, does, now, at);
    if (!before(c->atomic)) report(does, now, "has changed by an atomic", c->atomic, at);
    c->write = now;
    drop_readings(c);
}

bool is_checked(uintptr_t at) { /* false without a running thread, on its stack, and in d9_model_here */
    return w.thread && at - w.stack >= w.stack_bytes &&
           at - reinterpret_cast<uintptr_t>(&d9_model_here) >= sizeof d9_model_here;
}

void on_read(const void *address, size_t bytes, const void *code) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(address);
    if (!is_checked(from)) return;
    const access now = {w.thread->number, w.thread->clock, reinterpret_cast<uintptr_t>(code)};
    for_cells(from, bytes, [&now](cell *c, uintptr_t at) { record_read(c, now, at); });
}

void on_write(const void *address, size_t bytes, const void *code) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(address);
    if (!is_checked(from)) return;
    const access now = {w.thread->number, w.thread->clock, reinterpret_cast<uintptr_t>(code)};
    for_cells(from, bytes, [&now](cell *c, uintptr_t at) { record_write(c, "writes", now, at); });
}

} // namespace

void d9_model_set_race_check(bool on) { watches = on && compiled; }
bool d9_model_race_check_is_on(void) { return watches; }

/* ---- functions called by the scheduler ---- */

void d9_race_launch(size_t cluster_threads, size_t clusters) {
    w.first = w.next;
    w.next += static_cast<uint32_t>(cluster_threads * clusters);
    w.cluster_threads = static_cast<uint32_t>(cluster_threads);
    w.parts.clear();
    w.readings.assign(1, reading());
    w.spare = 0;
    w.released.clear();
}

void d9_race_begin(std::vector<d9_race_thread> *cluster, size_t index, size_t threads) {
    cluster->assign(watches ? threads : 0, d9_race_thread());
    if (!watches) return;
    for (size_t i = 0; i < threads; i++) (*cluster)[i].number = w.first + static_cast<uint32_t>(index * threads + i);
}

void d9_race_run(d9_race_thread *thread, const void *stack, size_t bytes) {
    w.thread = thread;
    w.stack = reinterpret_cast<uintptr_t>(stack);
    w.stack_bytes = bytes;
}

void d9_race_meet(std::vector<d9_race_thread> &cluster, size_t begin, size_t end, uint32_t lanes) {
    if (cluster.empty()) return;
    std::vector<d9_race_thread *> met;
    d9_race_known known;
    for (size_t i = begin; i < end; i++)
        if (lanes >> i % 32 & 1) met.push_back(&cluster[i]);
    for (size_t i = 0; i < met.size(); i++)
        if (i == 0 || met[i]->known != met[i - 1]->known) known = join(known, met[i]->known);
    known = add_operations(known, met);
    for (d9_race_thread *t : met) t->known = known;
}

/* Records a write by a thread that knows everything known to the block. */
void d9_race_free(std::vector<d9_race_thread> &cluster, size_t begin, size_t end, const void *memory, size_t bytes) {
    d9_race_thread last;
    std::vector<d9_race_thread *> block;
    for (size_t i = begin; i < end; i++) {
        block.push_back(&cluster[i]);
        last.known = join(last.known, cluster[i].known);
    }
    last.known = add_operations(last.known, block);
    last.number = cluster[begin].number;
    last.clock = cluster[begin].clock;
    w.thread = &last;
    const access now = {last.number, last.clock, 0};
    for_cells(reinterpret_cast<uintptr_t>(memory), bytes,
              [&now](cell *c, uintptr_t at) { record_write(c, "ends and takes with it", now, at); });
    w.thread = nullptr;
}

void d9_race_forget(const void *memory, size_t bytes) {
    if (watches)
        for_cells(reinterpret_cast<uintptr_t>(memory), bytes, [](cell *c, uintptr_t) {
            drop_readings(c);
            c->write.number = c->atomic.number = 0;
        });
}

void d9_race_fence() {
    if (!w.thread) return;
    w.thread->known = join(w.thread->known, w.thread->acquired);
    w.thread->acquired = nullptr;
    w.thread->fenced = add_operations(w.thread->known, std::array<d9_race_thread *, 1>{w.thread});
}

void d9_race_atomic(const void *address, size_t bytes) {
    if (!w.thread) return;
    const uintptr_t from = reinterpret_cast<uintptr_t>(address);
    const access now = {w.thread->number, w.thread->clock, reinterpret_cast<uintptr_t>(__builtin_return_address(0))};
    d9_race_known &released = w.released[from];
    for_cells(from, bytes, [&now](cell *c, uintptr_t at) {
        check_write(c, "changes by an atomic", now, at);
        c->atomic = now;
    });
    w.thread->acquired = join(w.thread->acquired, released);
    released = join(released, w.thread->fenced);
}

/* ---- functions called by code compiled with -fsanitize=thread, with the types that gcc has built in ---- */

extern "C" {
#define D9_ACCESS(name, bytes, what)                                                                                   \
    void __tsan_##name(void *at);                                                                                      \
    void __tsan_##name(void *at) {                                                                                     \
        if (w.thread) what(at, bytes, __builtin_return_address(0));                                                    \
    }
#define D9_ACCESSES(bytes)                                                                                             \
    D9_ACCESS(read##bytes, bytes, on_read)                                                                             \
    D9_ACCESS(write##bytes, bytes, on_write)                                                                           \
    D9_ACCESS(unaligned_read##bytes, bytes, on_read)                                                                   \
    D9_ACCESS(unaligned_write##bytes, bytes, on_write)
D9_ACCESSES(1)
D9_ACCESSES(2)
D9_ACCESSES(4)
D9_ACCESSES(8)
D9_ACCESSES(16)

void __tsan_read_range(void *at, long bytes);
void __tsan_write_range(void *at, long bytes);
void __tsan_init(void);

void __tsan_read_range(void *at, long bytes) { on_read(at, static_cast<size_t>(bytes), __builtin_return_address(0)); }
void __tsan_write_range(void *at, long bytes) { on_write(at, static_cast<size_t>(bytes), __builtin_return_address(0)); }
void __tsan_init(void) { compiled = true; } /* called before main */
}
