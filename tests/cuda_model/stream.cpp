/* Queued launches: see stream.h. d9_model_launch calls d9_model_queue_launch first. */
#include "tests/cuda_model/stream.h"
#include "tests/cuda_model/cuda_model.h"
#include "tests/cuda_model/model.h"
#include <set>
#include <vector>

namespace {

struct item {                    /* one launch, or other work */
    std::function<int()> launch; /* of a kernel; empty: `work` runs instead */
    d9_model_work work;
    std::vector<unsigned char> what;
};

struct launch_queue { /* the list that launches go to, kernels loaded so far, and planted errors */
    d9_model_list *list = nullptr;
    const void *stream = nullptr, *launched_on = nullptr;
    bool captured = false;
    std::set<std::string> loaded;
    size_t launches = 0;
    int pending_error = 0, forbidden_error = 0;
    const char *forbidden = nullptr;
};

launch_queue k;

constexpr int invalid_handle = 400; /* cudaErrorInvalidResourceHandle */

} // namespace

struct d9_model_list {
    std::vector<item> items;
};

void d9_model_set_stream(const void *stream) { k.launched_on = stream; }

bool d9_model_queue_launch(const char *kernel, const std::function<int()> &launch, int *error) {
    if (!k.list) return false;
    *error = k.pending_error;
    k.pending_error = 0;
    if (*error) return true;
    if (k.forbidden && std::string(kernel).find(k.forbidden) != std::string::npos) *error = k.forbidden_error;
    if (*error) return true;
    if (k.launched_on != k.stream)
        *error = d9_model_reject(std::string(kernel) + " was launched on another stream", invalid_handle);
    else
        *error = d9_model_load_kernel(kernel);
    if (!*error) k.list->items.push_back({launch, nullptr, {}});
    return true;
}

int d9_model_load_kernel(const char *kernel) {
    if (k.captured && !k.loaded.count(kernel))
        return d9_model_reject(std::string(kernel) + " would be loaded while a stream is captured", D9_MODEL_CAPTURING);
    k.loaded.insert(kernel);
    return 0;
}

/* ---- functions called by tests ---- */

d9_model_list *d9_model_list_new(void) { return new d9_model_list; }
void d9_model_list_free(d9_model_list *list) { delete list; }
size_t d9_model_list_size(const d9_model_list *list) { return list->items.size(); }
void d9_model_list_clear(d9_model_list *list) { list->items.clear(); }
size_t d9_model_launches(void) { return k.launches; }
size_t d9_model_loaded(void) { return k.loaded.size(); }
void d9_model_unload(void) { k.loaded.clear(); }
void d9_model_set_pending_error(int error) { k.pending_error = error; }
void d9_model_forbid(const char *kernel, int error) {
    k.forbidden = kernel;
    k.forbidden_error = error;
}

void d9_model_queue_to(d9_model_list *list, const void *stream, bool captured) {
    k.list = list;
    k.stream = stream;
    k.captured = captured;
}

void d9_model_list_move(d9_model_list *from, size_t count, d9_model_list *to, size_t at) {
    const auto begin = from->items.begin(), end = begin + static_cast<std::ptrdiff_t>(count);
    to->items.insert(to->items.begin() + static_cast<std::ptrdiff_t>(at), begin, end);
    from->items.erase(begin, end);
}

void d9_model_list_add(d9_model_list *list, d9_model_work work, const void *what, size_t bytes) {
    const unsigned char *from = static_cast<const unsigned char *>(what);
    list->items.push_back({nullptr, work, std::vector<unsigned char>(from, from + bytes)});
}

int d9_model_submit(const void *stream, d9_model_work work, const void *what, size_t bytes) {
    if (!k.list) return work(what);
    if (stream != k.stream) return d9_model_reject("work was submitted to another stream", invalid_handle);
    d9_model_list_add(k.list, work, what, bytes);
    return 0;
}

static int run_item(const item &one) {
    d9_model_list *const kept = k.list;
    k.list = nullptr; /* launches run at once */
    const int error = one.work ? one.work(one.what.data()) : one.launch();
    k.launches += one.launch ? 1 : 0;
    k.list = kept;
    return error;
}

int d9_model_list_run(const d9_model_list *list) {
    int error = 0;
    for (size_t i = 0; i < list->items.size() && !error; i++) error = run_item(list->items[i]);
    return error;
}

int d9_model_list_run_until(d9_model_list *list, bool (*reached)(const void *what), const void *what) {
    int error = 0;
    size_t ran = 0;
    while (ran < list->items.size() && !reached(what)) {
        error = run_item(list->items[ran]);
        if (error) break;
        ran++;
    }
    list->items.erase(list->items.begin(), list->items.begin() + static_cast<std::ptrdiff_t>(ran));
    return error;
}
