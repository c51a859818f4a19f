/* Convolutions by cuDNN: makes a choice (an engine and its knobs, cudnn.h) for each and runs it. The scratch memory
 * holds the arguments that are converted (d9_conv_staged_bytes), followed by cuDNN's workspace.
 *
 * `tune: on`: times all choices that cuDNN's heuristics offer, some 40 of 20 us to 0.3 ms each, and uses the fastest
 * for all equal convolutions. auto: likewise, but reuses choices of earlier runs on the same kind of device
 * (choices.h). off: uses the first choice that can be built. Choices that need too much memory are skipped.
 *
 * cuDNN reports which engines are deterministic, but has been wrong (9.23.1, forward engine 5 on sm_86: PyTorch's issue
 * 188288). If memory allows, a newly tuned choice is therefore run twice on the same random numbers before it is used.
 * In a program that keeps all values (`verify`), all choices are checked in this way, except those of a saved plan. A
 * choice whose results differ is banned for this kind of device and library. */
#include "backends/cuda/cuda.h"
#include "backends/cuda/cudnn.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CHOICES = 128, TIMED_RUNS = 3 };
enum { WORKSPACE_ALIGNMENT = 256 }; /* alignment of new device memory */

static int64_t round_up(int64_t bytes) {
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

typedef struct convolution {
    d9_cudnn_graph graph;
    d9_cudnn_plan plan;
    int64_t staged_bytes[D9_CONV_ARGUMENTS];   /* size of the converted argument; 0: it is not converted */
    d9_kernel_store stored[D9_CONV_ARGUMENTS]; /* types of the arguments' values in memory */
    /* Smallest scratch size among the choices rejected for lack of memory; 0 if none was rejected. If any was, the
     * choice made instead is not cached. */
    int64_t smallest_rejected;
} convolution;

/* A convolution with its arguments: the site's values, or memory for timing. */
typedef struct job {
    d9_cuda *cuda;
    const d9_site *site; /* NULL: for timing without a site */
    convolution *convolution;
    void *data[D9_CONV_ARGUMENTS];
} job;

static d9_cudnn_target target_of(const d9_cuda *cuda) { return (d9_cudnn_target){.handle = cuda->convolver_state}; }

/* ---- running ---- */

/* Converts a staged argument from `data`, in its value's type, to `staged`, or back. */
static d9_status convert(d9_context *context, const job *j, int a, void *data, void *staged, bool back) {
    const d9_conv_tensor *tensor = &j->convolution->graph.description.tensor[a];
    const int64_t count = tensor->bytes / (int64_t)d9_type_bytes(tensor->type);
    const d9_kernel_store stored = j->convolution->stored[a], computed = d9_cuda_store_of(tensor->type);
    const d9_kernel_in from = {back ? staged : data, back ? computed : stored};
    const d9_kernel_out to = {back ? data : staged, back ? stored : computed};
    return d9_cuda_check(context, j->site, d9_cuda_cast(j->cuda->stream, from, count, to));
}

static d9_status run_job(d9_context *context, void *what) {
    d9_status status = D9_OK;
    const job *j = what;
    const convolution *c = j->convolution;
    const int written = c->graph.description.written;
    void *data[D9_CONV_ARGUMENTS];
    uint8_t *at = j->cuda->scratch;
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) {
        data[a] = c->staged_bytes[a] > 0 ? at : j->data[a];
        at += c->staged_bytes[a];
        if (c->staged_bytes[a] > 0 && a != written) D9_TRY(convert(context, j, a, j->data[a], data[a], false));
    }
    D9_TRY(d9_cudnn_run(context, target_of(j->cuda).handle, &c->graph, &j->convolution->plan, data, at));
    if (c->staged_bytes[written] > 0) D9_TRY(convert(context, j, written, j->data[written], data[written], true));
done:
    return status;
}

static job job_of(const d9_site *site) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    job j = {.cuda = d9_cuda_of(site), .site = site, .convolution = site->data};
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) j.data[a] = d9_site_data(site, g.value[a]);
    return j;
}

static d9_status run(d9_context *context, const d9_site *site, int64_t step) {
    job j = job_of(site);
    (void)step;
    return run_job(context, &j);
}

/* ---- trial runs ---- */

/* Arguments for timing and checks. Values in the buffer SCRATCH are overwritten with random numbers, because they hold
 * nothing between steps. Values in other buffers, such as weights, must be kept: a trial uses other memory. */
typedef struct trial {
    job job;
    void *substitute;      /* memory in place of values to keep; NULL: no trial runs, or not enough memory for them */
    int64_t written_bytes; /* size of the argument that the pass writes */
} trial;

static bool must_be_kept(const d9_site *site, d9_value_id id) {
    return d9_site_value(site, id)->buffer != D9_BUFFER_SCRATCH;
}

static d9_status fill_trial(d9_context *context, const d9_site *site, trial *t) {
    d9_status status = D9_OK;
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    uint8_t *at = t->substitute;
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) {
        const d9_type type = d9_site_value(site, g.value[a])->type;
        const int64_t bytes = d9_site_bytes(site, g.value[a]);
        if (must_be_kept(site, g.value[a])) {
            t->job.data[a] = at;
            at += round_up(bytes);
        }
        D9_TRY(d9_cuda_fill_random(context, t->job.cuda, type, bytes, t->job.data[a]));
        if (a == t->job.convolution->graph.description.written) t->written_bytes = bytes;
    }
done:
    return status;
}

static d9_status begin_trial(d9_context *context, const d9_site *site, trial *t) {
    d9_status status;
    const d9_cuda *cuda = d9_cuda_of(site);
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    int64_t bytes = WORKSPACE_ALIGNMENT, available, total;
    *t = (trial){.job = job_of(site)};
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++)
        if (must_be_kept(site, g.value[a])) bytes += round_up(d9_site_bytes(site, g.value[a]));
    D9_TRY(cuda->driver->memory(context, cuda->state, &available, &total));
    if (bytes > available) goto done;
    status = cuda->driver->allocate(context, cuda->state, bytes, "weights to time convolutions with", &t->substitute);
    D9_TRY(d9_cuda_ignore_failure(context, cuda, status)); /* it may fail although enough memory is free */
    if (t->substitute) D9_TRY(fill_trial(context, site, t));
done:
    return status;
}

static void end_trial(d9_context *context, const d9_cuda *cuda, trial *t) {
    if (t->substitute) cuda->driver->release(context, cuda->state, t->substitute);
    t->substitute = NULL;
}

/* ---- banned choices, stored in the cache ---- */

static const char *const banned = "banned";

/* A ban applies to an engine with its knobs for a pass and type, whatever the shape. */
static void make_ban_key(const d9_cuda *cuda, const convolution *c, const d9_cudnn_choice *choice,
                         char key[D9_CUDA_CHOICE_KEY]) {
    char text[D9_CONV_TEXT + D9_CUDNN_NAME], name[D9_CUDNN_NAME];
    d9_conv_text(&c->graph.description, text);
    text[strcspn(text, " ") + 1 + strcspn(text + strcspn(text, " ") + 1, " ")] = 0; /* leaves "forward f16" */
    d9_cudnn_choice_name(choice, name);
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, " %s", name);
    d9_cuda_choice_key(cuda, text, key);
}

/* True if the choice is banned, or if its engine is excluded: a cache of an earlier version may hold such a choice. */
static bool is_banned(const d9_cuda *cuda, const convolution *c, const d9_cudnn_choice *choice) {
    char key[D9_CUDA_CHOICE_KEY];
    if (d9_cudnn_rounds_partial_sums(choice, &c->graph.description)) return true;
    make_ban_key(cuda, c, choice, key);
    return d9_cuda_choices_find(cuda->choices, key, false) != NULL;
}

static d9_status ban(d9_context *context, const d9_site *site, const d9_cudnn_choice *choice) {
    d9_status status;
    char key[D9_CUDA_CHOICE_KEY], text[D9_CONV_TEXT], name[D9_CUDNN_NAME];
    const d9_cuda *cuda = d9_cuda_of(site);
    const convolution *c = site->data;
    d9_cuda_choices *choices = cuda->choices;
    make_ban_key(cuda, c, choice, key);
    d9_conv_text(&c->graph.description, text);
    d9_cudnn_choice_name(choice, name);
    d9_log(context, D9_LOG_WARNING, "%s: cuDNN's %s is not deterministic for %s: it is banned on this device",
           site->nodes[0]->role, name, text);
    D9_TRY(d9_cuda_choices_add(context, choices, key, banned));
    d9_cuda_choices_save(context, choices);
done:
    return status;
}

/* ---- choosing and preparing ---- */

static d9_status build_plan(d9_context *context, const d9_cuda *cuda, convolution *c, const d9_cudnn_choice *choice,
                            bool *built) {
    d9_status status;
    const d9_cudnn_target target = target_of(cuda);
    d9_cudnn_plan_free(&c->plan);
    D9_TRY(d9_cudnn_plan_make(context, &target, &c->graph, choice, &c->plan, built));
    if (*built && c->plan.workspace_bytes > D9_CUDNN_MOST_WORKSPACE_BYTES) *built = false;
done:
    return status;
}

static int64_t scratch_bytes_of(const convolution *c) {
    int64_t bytes = c->plan.workspace_bytes;
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) bytes += c->staged_bytes[a];
    return bytes;
}

/* Builds the plan unless the choice is banned or exceeds the free memory. */
static d9_status build_plan_in_free_memory(d9_context *context, const d9_cuda *cuda, convolution *c,
                                           const d9_cudnn_choice *choice, bool *built) {
    d9_status status;
    *built = false;
    if (is_banned(cuda, c, choice)) return D9_OK;
    D9_TRY(build_plan(context, cuda, c, choice, built));
    if (!*built) goto done;
    D9_TRY(d9_cuda_can_enlarge_scratch(context, cuda, scratch_bytes_of(c), built));
    if (!*built && (c->smallest_rejected == 0 || scratch_bytes_of(c) < c->smallest_rejected))
        c->smallest_rejected = scratch_bytes_of(c);
done:
    return status;
}

/* Runs a job for timing, in temporarily enlarged scratch memory. */
static d9_status run_in_enlarged_scratch(d9_context *context, void *what) {
    d9_status status;
    const job *j = what;
    D9_TRY(d9_cuda_borrow_scratch(context, j->cuda, scratch_bytes_of(j->convolution)));
    D9_TRY(run_job(context, what));
done:
    return status;
}

/* Times a choice, conversions included. *ran false: the choice is banned, cannot be built, is too large, or failed
 * although the device still works. */
static d9_status time_choice(d9_context *context, const d9_cuda *cuda, job *j, const d9_cudnn_choice *choice,
                             double give_up, bool *ran, double *seconds) {
    d9_status status;
    D9_TRY(build_plan_in_free_memory(context, cuda, j->convolution, choice, ran));
    if (*ran)
        D9_TRY(d9_cuda_time_fallible(context, cuda, run_in_enlarged_scratch, j, TIMED_RUNS, give_up, ran, seconds));
done:
    return status;
}

/* Finds the fastest choice; *best -1: none ran. A choice that takes twice as long as the best is not timed further. */
static d9_status find_fastest(d9_context *context, d9_cuda *cuda, job *j, const d9_cudnn_choice *choices, int count,
                              int *best, double *least) {
    d9_status status = D9_OK;
    *best = -1;
    *least = INFINITY;
    for (int i = 0; i < count; i++) {
        bool ran;
        double seconds;
        D9_TRY(time_choice(context, cuda, j, &choices[i], 2 * *least, &ran, &seconds));
        if (!ran || !(seconds < *least)) continue;
        *best = i;
        *least = seconds;
    }
done:
    return status;
}

/* Sets *first to the first choice that can be built in the free memory; -1: none. */
static d9_status find_first_buildable(d9_context *context, d9_cuda *cuda, convolution *c,
                                      const d9_cudnn_choice *choices, int count, int *first) {
    d9_status status = D9_OK;
    *first = -1;
    for (int i = 0; i < count && *first < 0; i++) {
        bool built;
        D9_TRY(build_plan_in_free_memory(context, cuda, c, &choices[i], &built));
        if (built) *first = i;
    }
done:
    return status;
}

static d9_status list_choices(d9_context *context, const d9_cuda *cuda, const convolution *c, d9_cudnn_choice **choices,
                              int *count) {
    d9_status status;
    const d9_cudnn_target target = target_of(cuda);
    D9_TRY(D9_ALLOCATE(context, MOST_CHOICES, "choices", choices));
    D9_TRY(d9_cudnn_choices(context, &target, &c->graph, *choices, MOST_CHOICES, count));
done:
    return status;
}

/* Looks up the cached choice and builds it; with `tune: on` only one that was made in this run, with `tune: off` none.
 * *found false: there is none, or it is banned, too large or cannot be built. */
static d9_status build_cached(d9_context *context, const d9_site *site, const char *key, d9_cudnn_choice *choice,
                              bool *found) {
    const d9_cuda *cuda = d9_cuda_of(site);
    const char *name = d9_cuda_choices_find(cuda->choices, key, site->options->tune == D9_TUNE_ON);
    *found = name && site->options->tune != D9_TUNE_OFF && d9_cudnn_choice_parse(name, choice);
    return *found ? build_plan_in_free_memory(context, cuda, site->data, choice, found) : D9_OK;
}

static d9_status cache_choice(d9_context *context, const d9_cuda *cuda, const char *key,
                              const d9_cudnn_choice *choice) {
    char name[D9_CUDNN_NAME];
    d9_cudnn_choice_name(choice, name);
    return d9_cuda_choices_add(context, cuda->choices, key, name);
}

static void make_key(const d9_site *site, char key[D9_CUDA_CHOICE_KEY]) {
    char text[D9_CONV_TEXT];
    d9_conv_text(&((const convolution *)site->data)->graph.description, text);
    d9_cuda_choice_key(d9_cuda_of(site), text, key);
}

/* Chooses the fastest choice or, if `tune` is off or memory for trial runs is missing, the first that can be built. */
static d9_status choose_anew(d9_context *context, const d9_site *site, trial *t, d9_cudnn_choice *chosen) {
    d9_status status;
    d9_cuda *cuda = d9_cuda_of(site);
    convolution *c = site->data;
    d9_cudnn_choice *choices = NULL;
    int count = 0, best;
    double least;
    D9_TRY(list_choices(context, cuda, c, &choices, &count));
    if (t->substitute && site->options->tune != D9_TUNE_OFF)
        D9_TRY(find_fastest(context, cuda, &t->job, choices, count, &best, &least));
    else
        D9_TRY(find_first_buildable(context, cuda, c, choices, count, &best));
    /* d9_cuda_reserve_scratch fails, and its message has the batch size that would fit */
    if (best < 0 && c->smallest_rejected > 0) D9_TRY(d9_cuda_reserve_scratch(context, cuda, c->smallest_rejected));
    if (best < 0)
        D9_TRY(d9_fail(context, D9_DEVICE, "%s: cuDNN cannot compute %s on this device", site->nodes[0]->role,
                       d9_op_name(site->nodes[0]->op)));
    *chosen = choices[best];
done:
    d9_release(context, choices);
    return status;
}

/* Sets *same: true if two runs of a choice give identical bits; unchanged if the choice cannot be built. */
static d9_status check_repeats(d9_context *context, const d9_site *site, trial *t, const d9_cudnn_choice *choice,
                               bool *same) {
    d9_status status = D9_OK;
    bool built;
    uint8_t *bits[2] = {NULL, NULL};
    d9_cuda *cuda = d9_cuda_of(site);
    convolution *c = site->data;
    D9_TRY(build_plan(context, cuda, c, choice, &built));
    if (!built) goto done; /* prepare reports the failure */
    D9_TRY(d9_cuda_borrow_scratch(context, cuda, scratch_bytes_of(c)));
    for (int i = 0; i < 2; i++) {
        D9_TRY(D9_ALLOCATE(context, t->written_bytes, "a convolution's output", &bits[i]));
        D9_TRY(run_job(context, &t->job));
        D9_TRY(cuda->driver->read(context, cuda->state, t->job.data[c->graph.description.written], bits[i],
                                  t->written_bytes));
    }
    *same = memcmp(bits[0], bits[1], (size_t)t->written_bytes) == 0;
done:
    for (int i = 0; i < 2; i++) d9_release(context, bits[i]);
    return status;
}

/* Chooses until two runs of the choice give equal results; `found`: tries *chosen first. A choice whose results differ
 * is banned; choose_anew fails if none is left. Without trial runs, the choice is not checked. */
static d9_status choose_repeatable(d9_context *context, const d9_site *site, trial *t, bool found,
                                   d9_cudnn_choice *chosen) {
    d9_status status = D9_OK;
    for (bool same = false; !same; found = false) {
        if (!found) D9_TRY(choose_anew(context, site, t, chosen));
        same = true;
        if (t->substitute) D9_TRY(check_repeats(context, site, t, chosen, &same));
        if (!same) D9_TRY(ban(context, site, chosen));
    }
done:
    return status;
}

static d9_status choose(d9_context *context, d9_site *site, d9_cudnn_choice *chosen) {
    d9_status status;
    char key[D9_CUDA_CHOICE_KEY];
    bool found;
    trial t = {.substitute = NULL};
    const bool times = site->options->tune != D9_TUNE_OFF;
    make_key(site, key);
    D9_TRY(build_cached(context, site, key, chosen, &found));
    if (found && !site->program->keep_all) goto done;
    if (times || site->program->keep_all) D9_TRY(begin_trial(context, site, &t));
    D9_TRY(choose_repeatable(context, site, &t, found, chosen));
    if (times && t.substitute && ((const convolution *)site->data)->smallest_rejected == 0)
        D9_TRY(cache_choice(context, d9_cuda_of(site), key, chosen));
done:
    end_trial(context, d9_cuda_of(site), &t);
    return status;
}

static bool match(const d9_site *site) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    return d9_cuda_storable(g.type) && d9_conv_types_fit(site, &g);
}

static d9_status prepare(d9_context *context, d9_site *site) {
    d9_status status;
    convolution *c = NULL;
    bool built = false;
    d9_cudnn_choice choice;
    d9_cuda *cuda = d9_cuda_of(site);
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    const d9_cudnn_description description = d9_cudnn_describe(&g);
    const d9_cudnn_target target = target_of(cuda);
    D9_TRY(D9_ALLOCATE(context, 1, "a convolution", &c));
    site->data = c;
    site->tf32_outputs = g.tf32;
    d9_conv_staged_bytes(site, &description, c->staged_bytes);
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) c->stored[a] = d9_cuda_store_of(d9_site_value(site, g.value[a])->type);
    D9_TRY(d9_cudnn_graph_make(context, &target, &description, &c->graph));
    if (!d9_cudnn_choice_parse(site->wanted, &choice)) D9_TRY(choose(context, site, &choice));
    d9_cudnn_choice_name(&choice, site->choice);
    if (d9_cudnn_rounds_partial_sums(&choice, &description)) /* only a saved plan can name it */
        D9_TRY(d9_fail(context, D9_USAGE, "%s: cuDNN's %s rounds partial sums of weight gradients: make a new plan",
                       site->nodes[0]->role, site->choice));
    D9_TRY(build_plan(context, cuda, c, &choice, &built));
    if (!built)
        D9_TRY(
            d9_fail(context, D9_DEVICE, "%s: cuDNN cannot run %s on this device", site->nodes[0]->role, site->choice));
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, scratch_bytes_of(c)));
done:
    return status;
}

static void release(d9_context *context, d9_site *site) {
    convolution *c = site->data;
    if (!c) return;
    d9_cudnn_plan_free(&c->plan);
    d9_cudnn_graph_free(&c->graph);
    d9_release(context, c);
    site->data = NULL;
}

/* ---- benchmark ---- */

/* Times all choices that cuDNN's heuristics offer, then restores the plan in use. A choice that takes four times as
 * long as the fastest so far is timed by one run. */
static d9_status benchmark(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    d9_status status;
    d9_cuda *cuda = d9_cuda_of(site);
    job j = job_of(site);
    d9_cudnn_choice *choices = NULL, used;
    int offered = 0;
    double least = INFINITY;
    bool ran;
    *count = 0;
    D9_TRY(list_choices(context, cuda, j.convolution, &choices, &offered));
    for (int i = 0; i < offered && *count < capacity; i++) {
        d9_choice_time *row = &rows[*count];
        D9_TRY(time_choice(context, cuda, &j, &choices[i], 4 * least, &ran, &row->seconds));
        if (!ran) continue;
        least = fmin(least, row->seconds);
        row->bare_seconds = row->seconds;
        d9_cudnn_choice_name(&choices[i], row->choice);
        (*count)++;
    }
    if (d9_cudnn_choice_parse(site->choice, &used)) D9_TRY(build_plan(context, cuda, j.convolution, &used, &ran));
done:
    d9_release(context, choices);
    return status;
}

/* Times the cached choice or, if there is none or it does not run, all choices, and caches the fastest. *seconds 0:
 * none ran. */
static d9_status time_best_choice(d9_context *context, d9_cuda *cuda, job *j, double *seconds) {
    d9_status status;
    char text[D9_CONV_TEXT], key[D9_CUDA_CHOICE_KEY];
    d9_cudnn_choice *choices = NULL, kept;
    bool ran = false;
    int count = 0, best;
    d9_conv_text(&j->convolution->graph.description, text);
    d9_cuda_choice_key(cuda, text, key);
    const char *cached = d9_cuda_choices_find(cuda->choices, key, false);
    if (cached && d9_cudnn_choice_parse(cached, &kept))
        D9_TRY(time_choice(context, cuda, j, &kept, INFINITY, &ran, seconds));
    if (ran) return D9_OK;
    D9_TRY(list_choices(context, cuda, j->convolution, &choices, &count));
    D9_TRY(find_fastest(context, cuda, j, choices, count, &best, seconds));
    if (best >= 0) {
        D9_TRY(cache_choice(context, cuda, key, &choices[best]));
        d9_cuda_choices_save(context, cuda->choices);
    } else {
        *seconds = 0;
    }
done:
    d9_release(context, choices);
    return status;
}

/* Measures a product of square matrices, as a 1 x 1 convolution over as many pixels as channels. */
static d9_status peak_rate(d9_context *context, void *backend, const d9_precision *precision,
                           double *operations_per_second) {
    enum { SIDE = 8192 };
    d9_status status;
    d9_cuda *cuda = backend;
    convolution c = {0};
    job j = {.cuda = cuda, .convolution = &c};
    const d9_cudnn_target target = target_of(cuda);
    const d9_conv_geometry g = {.x = {4, {SIDE / 64, 8, 8, SIDE}},
                                .w = {4, {SIDE, 1, 1, SIDE}},
                                .y = {4, {SIDE / 64, 8, 8, SIDE}},
                                .type = precision->compute,
                                .tf32 = precision->tf32,
                                .stride = 1};
    const d9_cudnn_description description = d9_cudnn_describe(&g);
    void *memory = NULL;
    double seconds;
    D9_TRY(d9_cudnn_graph_make(context, &target, &description, &c.graph));
    status = cuda->driver->allocate(context, cuda->state, 3 * description.tensor[0].bytes, "a matrix product", &memory);
    D9_TRY(d9_cuda_ignore_failure(context, cuda, status));
    if (!memory) goto done; /* the rate stays unknown */
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) j.data[a] = (uint8_t *)memory + a * description.tensor[0].bytes;
    D9_TRY(d9_cuda_fill_random(context, cuda, g.type, 3 * description.tensor[0].bytes, memory));
    D9_TRY(time_best_choice(context, cuda, &j, &seconds));
    if (seconds > 0) *operations_per_second = d9_conv_operations(&description) / seconds;
done:
    d9_cudnn_plan_free(&c.plan);
    d9_cudnn_graph_free(&c.graph);
    if (memory) cuda->driver->release(context, cuda->state, memory);
    return status;
}

/* ---- d9_cuda_convolver; its state is the cuDNN handle ---- */

static void close_convolver(d9_context *context, void *convolver) {
    (void)context;
    if (convolver) cudnnDestroy(convolver);
}

static d9_status open_convolver(d9_context *context, const d9_cuda_calls *driver, void *state, void **convolver) {
    d9_status status = D9_OK;
    cudnnHandle_t handle = NULL;
    cudnnStatus_t result = cudnnCreate(&handle);
    if (result == CUDNN_STATUS_SUCCESS) result = cudnnSetStream(handle, driver->stream(state));
    if (result != CUDNN_STATUS_SUCCESS)
        D9_TRY(d9_fail(context, D9_DEVICE, "cuDNN %d: %s", (int)cudnnGetVersion(), cudnnGetErrorString(result)));
    *convolver = handle;
    handle = NULL;
done:
    close_convolver(context, handle);
    return status;
}

static void describe(const void *convolver, d9_device_info *info) {
    const size_t used = strlen(info->version);
    (void)convolver;
    snprintf(info->version + used, sizeof info->version - used, ", cuDNN %zu.%zu.%zu", cudnnGetVersion() / 10000,
             cudnnGetVersion() / 100 % 100, cudnnGetVersion() % 100);
}

const d9_cuda_convolver d9_cuda_cudnn = {
    .open = open_convolver,
    .close = close_convolver,
    .describe = describe,
    .match = match,
    .prepare = prepare,
    .run = run,
    .release = release,
    .benchmark = benchmark,
    .peak_rate = peak_rate,
};
