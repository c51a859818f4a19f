/* Calls of cuDNN's graph API; see cudnn.h. */
#define _GNU_SOURCE /* dladdr */
#include "backends/cuda/cudnn.h"
#include "core/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- loading ---- */

static int64_t read_to_page_cache(const char *path, const atomic_bool *stop) {
    char piece[1 << 16];
    int64_t bytes = 0;
    const d9_system *system = d9_system_default();
    const int file = system->open(system->user, path, O_RDONLY | O_CLOEXEC, 0);
    for (ssize_t got = 1; file >= 0 && got > 0 && !atomic_load(stop); bytes += got > 0 ? got : 0)
        got = system->read(system->user, file, piece, sizeof piece);
    if (file >= 0) system->close(system->user, file);
    return bytes;
}

/* The libraries to read lie in the folder of the cuDNN library that is already loaded. */
int64_t d9_cudnn_read_ahead(const atomic_bool *stop) {
    static const char *const names[] = {"libcudnn_graph.so.9", "libcudnn_engines_runtime_compiled.so.9",
                                        "libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9"};
    size_t (*const own)(void) = cudnnGetVersion;
    void *symbol;
    char path[4096];
    Dl_info info;
    int64_t bytes = 0;
    memcpy(&symbol, &own, sizeof symbol); /* ISO C has no cast from a function pointer to an object pointer */
    if (!dladdr(symbol, &info) || !strchr(info.dli_fname, '/')) return 0;
    const int folder = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%.*s/%s", folder, info.dli_fname, names[i]) < (int)sizeof path)
            bytes += read_to_page_cache(path, stop);
    return bytes;
}

/* ---- calling ---- */

static d9_status check(d9_context *context, cudnnStatus_t result, const char *what) {
    char why[256] = "";
    if (result == CUDNN_STATUS_SUCCESS) return D9_OK;
    cudnnGetLastErrorString(why, sizeof why);
    why[strcspn(why, "\n")] = 0;
    return d9_fail(context, D9_DEVICE, "cuDNN: %s: %s%s%s", what, cudnnGetErrorString(result), *why ? ": " : "", why);
}

#define CUDNN_TRY(call, what) D9_TRY(check(context, (call), what))

static cudnnStatus_t set_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    return cudnnBackendSetAttribute(d, name, type, count, values);
}

static void destroy(cudnnBackendDescriptor_t *d) {
    if (*d) cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

/* Sets the device properties if the target has no handle. */
static cudnnStatus_t set_target(const d9_cudnn_target *target, cudnnBackendDescriptor_t d,
                                cudnnBackendAttributeName_t properties) {
    if (target->handle) return CUDNN_STATUS_SUCCESS; /* the graph has the handle */
    return set_attribute(d, properties, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->properties);
}

d9_status d9_cudnn_parse_properties(d9_context *context, const char *json, cudnnBackendDescriptor_t *properties) {
    d9_status status;
    *properties = NULL;
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, properties), "device properties");
    CUDNN_TRY(set_attribute(*properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                            (int64_t)strlen(json) + 1, json),
              "device properties");
    CUDNN_TRY(cudnnBackendFinalize(*properties), "device properties");
done:
    if (status != D9_OK) destroy(properties);
    return status;
}

/* ---- the operation graph ---- */

static cudnnDataType_t data_type(d9_type type) {
    return type == D9_BF16 ? CUDNN_DATA_BFLOAT16 : type == D9_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

static d9_status make_tensor(d9_context *context, const d9_conv_tensor *t, cudnnBackendDescriptor_t *made) {
    d9_status status;
    const cudnnDataType_t type = data_type(t->type);
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, made), "a tensor");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type), "a tensor's type");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dims),
              "a tensor's dimensions");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->strides), "a tensor's strides");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->id), "a tensor's id");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &t->alignment),
              "a tensor's alignment");
    CUDNN_TRY(cudnnBackendFinalize(*made), "a tensor");
done:
    return status;
}

static d9_status make_convolution(d9_context *context, const d9_cudnn_description *c, cudnnBackendDescriptor_t *made) {
    d9_status status;
    const cudnnDataType_t compute = data_type(c->accumulate);
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t spatial = 2;
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, made), "a convolution");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute),
              "its sums' type");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode),
              "its mode");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial),
              "its dimensions");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, c->pad), "its padding");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, c->pad), "its padding");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, c->stride),
              "its stride");
    CUDNN_TRY(set_attribute(*made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, c->dilation), "its dilation");
    CUDNN_TRY(cudnnBackendFinalize(*made), "a convolution");
done:
    return status;
}

/* cuDNN's names of a pass and its arguments. */
typedef struct pass_names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t tensor[D9_CONV_ARGUMENTS], convolution, alpha, beta;
} pass_names;
static const pass_names names[] = {
    [D9_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [D9_CONV_BACKWARD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [D9_CONV_BACKWARD_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static d9_status make_operation(d9_context *context, d9_cudnn_graph *g) {
    d9_status status;
    const pass_names *n = &names[g->description.pass];
    const float alpha = 1, beta = 0;
    CUDNN_TRY(cudnnBackendCreateDescriptor(n->operation, &g->operation), "an operation");
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++)
        CUDNN_TRY(set_attribute(g->operation, n->tensor[a], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[a]),
                  "an argument");
    CUDNN_TRY(set_attribute(g->operation, n->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->convolution),
              "a convolution");
    CUDNN_TRY(set_attribute(g->operation, n->alpha, CUDNN_TYPE_FLOAT, 1, &alpha), "a factor");
    CUDNN_TRY(set_attribute(g->operation, n->beta, CUDNN_TYPE_FLOAT, 1, &beta), "a factor");
    CUDNN_TRY(cudnnBackendFinalize(g->operation), "an operation");
done:
    return status;
}

d9_status d9_cudnn_graph_make(d9_context *context, const d9_cudnn_target *target,
                              const d9_cudnn_description *description, d9_cudnn_graph *g) {
    d9_status status = D9_OK;
    *g = (d9_cudnn_graph){.description = *description};
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) D9_TRY(make_tensor(context, &description->tensor[a], &g->tensor[a]));
    D9_TRY(make_convolution(context, description, &g->convolution));
    D9_TRY(make_operation(context, g));
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g->graph), "an operation graph");
    CUDNN_TRY(set_attribute(g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->operation),
              "an operation graph");
    if (target->handle)
        CUDNN_TRY(set_attribute(g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle),
                  "an operation graph");
    CUDNN_TRY(cudnnBackendFinalize(g->graph), "an operation graph");
done:
    if (status != D9_OK) d9_cudnn_graph_free(g);
    return status;
}

void d9_cudnn_graph_free(d9_cudnn_graph *g) {
    destroy(&g->graph);
    destroy(&g->operation);
    destroy(&g->convolution);
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) destroy(&g->tensor[a]);
}

/* ---- choices ---- */

/* A name that fills the array counts as cut off: caches of earlier versions have cut names of that length. */
bool d9_cudnn_choice_name(const d9_cudnn_choice *choice, char name[D9_CUDNN_NAME]) {
    int at = snprintf(name, D9_CUDNN_NAME, "e%" PRId64, choice->engine);
    for (int k = 0; k < choice->knob_count && at < D9_CUDNN_NAME; k++)
        at += snprintf(name + at, (size_t)(D9_CUDNN_NAME - at), " k%" PRId64 "=%" PRId64, choice->knob[k],
                       choice->value[k]);
    return at < D9_CUDNN_NAME - 1;
}

bool d9_cudnn_choice_parse(const char *name, d9_cudnn_choice *choice) {
    char again[D9_CUDNN_NAME];
    int used = 0;
    *choice = (d9_cudnn_choice){0};
    if (sscanf(name, "e%" SCNd64 "%n", &choice->engine, &used) != 1) return false;
    for (const char *at = name + used; *at; at += used) {
        const int k = choice->knob_count;
        if (k == D9_CUDNN_KNOBS) return false;
        if (sscanf(at, " k%" SCNd64 "=%" SCNd64 "%n", &choice->knob[k], &choice->value[k], &used) != 2) return false;
        choice->knob_count++;
    }
    return d9_cudnn_choice_name(choice, again) && strcmp(name, again) == 0;
}

static int64_t read_notes(cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t capacity, int *notes) {
    int64_t found = 0;
    if (cudnnBackendGetAttribute(engine, name, type, capacity, &found, notes) != CUDNN_STATUS_SUCCESS) return 0;
    return found < capacity ? found : capacity;
}

/* Ranks of engines, best first. RANK_WITHOUT_TENSOR_CORES: in fp16, bf16 and tf32, engines without tensor cores.
 * RANK_STRICT: engines that propagate NaN strictly. RANK_EXCLUDED: nondeterministic engines; those that reduce in, or
 * convert inputs to, a narrower type than requested; in f32 without tf32, those with tensor cores, which round inputs
 * to tf32; those that compile when planned or need cuBLASLt; choices with too many knobs or too long a name. */
enum { RANK_FIRST, RANK_WITHOUT_TENSOR_CORES, RANK_STRICT, RANKS, RANK_EXCLUDED = RANKS };

static int rank_of(cudnnBackendDescriptor_t engine, const d9_cudnn_description *d) {
    const bool exact = d->tensor[D9_CONV_IMAGE].type == D9_F32 && !d->tf32;
    enum { MOST = 16 };
    int notes[MOST];
    bool tensor_cores = false, strict = false;
    int64_t count = read_notes(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST, notes);
    for (int64_t i = 0; i < count; i++) {
        tensor_cores |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        strict |= notes[i] == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
            return RANK_EXCLUDED;
    }
    if (exact && tensor_cores) return RANK_EXCLUDED;
    count = read_notes(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, MOST, notes);
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION || notes[i] == CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY)
            return RANK_EXCLUDED;
    return strict ? RANK_STRICT : exact || tensor_cores ? RANK_FIRST : RANK_WITHOUT_TENSOR_CORES;
}

static d9_status read_choice(d9_context *context, cudnnBackendDescriptor_t config,
                             const d9_cudnn_description *description, d9_cudnn_choice *choice, int *rank) {
    d9_status status = D9_OK;
    cudnnBackendDescriptor_t engine = NULL, knobs[D9_CUDNN_KNOBS] = {NULL};
    char name[D9_CUDNN_NAME];
    int64_t count = 0;
    *choice = (d9_cudnn_choice){0};
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), "an engine");
    for (int k = 0; k < D9_CUDNN_KNOBS; k++)
        CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[k]), "a knob");
    CUDNN_TRY(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                       &engine),
              "an engine");
    CUDNN_TRY(
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &choice->engine),
        "an engine's number");
    *rank = d9_cudnn_rounds_partial_sums(choice, description) ? RANK_EXCLUDED : rank_of(engine, description);
    if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 D9_CUDNN_KNOBS, &count, knobs) != CUDNN_STATUS_SUCCESS)
        count = 0;
    if (count > D9_CUDNN_KNOBS) *rank = RANK_EXCLUDED;
    for (int k = 0; k < count && *rank != RANK_EXCLUDED; k++) {
        int64_t one;
        cudnnBackendKnobType_t type;
        CUDNN_TRY(
            cudnnBackendGetAttribute(knobs[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &type),
            "a knob");
        choice->knob[k] = type;
        CUDNN_TRY(cudnnBackendGetAttribute(knobs[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &one,
                                           &choice->value[k]),
                  "a knob");
        choice->knob_count++;
    }
    if (!d9_cudnn_choice_name(choice, name)) *rank = RANK_EXCLUDED;
done:
    for (int k = 0; k < D9_CUDNN_KNOBS; k++) destroy(&knobs[k]);
    destroy(&engine);
    return status;
}

static bool contains(const d9_cudnn_choice *choices, int count, const d9_cudnn_choice *choice) {
    for (int i = 0; i < count; i++)
        if (memcmp(&choices[i], choice, sizeof *choice) == 0) return true;
    return false;
}

enum { MOST_CONFIGS = 64 };

static d9_status query_heuristics(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *g,
                                  cudnnBackendHeurMode_t mode, cudnnBackendDescriptor_t configs[MOST_CONFIGS],
                                  int64_t *count) {
    d9_status status;
    cudnnBackendDescriptor_t heuristics = NULL;
    *count = 0;
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics), "heuristics");
    CUDNN_TRY(
        set_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->graph),
        "heuristics");
    CUDNN_TRY(set_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode), "heuristics");
    CUDNN_TRY(set_target(target, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP), "heuristics");
    /* a heuristics mode may offer nothing for a graph; that is not an error */
    if (cudnnBackendFinalize(heuristics) != CUDNN_STATUS_SUCCESS) goto done;
    if (cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS,
                                 count, configs) != CUDNN_STATUS_SUCCESS)
        *count = 0;
    if (*count > MOST_CONFIGS) *count = MOST_CONFIGS;
done:
    destroy(&heuristics);
    return status;
}

typedef struct ranked_choice {
    d9_cudnn_choice choice;
    int rank;
} ranked_choice;

/* Adds the choices that a heuristics mode offers, in its order. */
static d9_status add_offers(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *g,
                            cudnnBackendHeurMode_t mode, ranked_choice *offers, int *count) {
    d9_status status = D9_OK;
    cudnnBackendDescriptor_t configs[MOST_CONFIGS] = {NULL};
    int64_t found;
    for (int i = 0; i < MOST_CONFIGS; i++)
        CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]), "a configuration");
    D9_TRY(query_heuristics(context, target, g, mode, configs, &found));
    for (int64_t i = 0; i < found; i++, ++*count)
        D9_TRY(read_choice(context, configs[i], &g->description, &offers[*count].choice, &offers[*count].rank));
done:
    for (int i = 0; i < MOST_CONFIGS; i++) destroy(&configs[i]);
    return status;
}

d9_status d9_cudnn_choices(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *g,
                           d9_cudnn_choice *choices, int capacity, int *count) {
    d9_status status;
    ranked_choice offers[2 * MOST_CONFIGS];
    int offered = 0;
    *count = 0;
    D9_TRY(add_offers(context, target, g, CUDNN_HEUR_MODE_A, offers, &offered));
    D9_TRY(add_offers(context, target, g, CUDNN_HEUR_MODE_FALLBACK, offers, &offered));
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < offered && *count < capacity; i++)
            if (offers[i].rank == rank && !contains(choices, *count, &offers[i].choice))
                choices[(*count)++] = offers[i].choice;
done:
    return status;
}

/* ---- plans ---- */

static d9_status make_engine(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *g, int64_t index,
                             cudnnBackendDescriptor_t *engine, bool *built) {
    d9_status status;
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine), "an engine");
    CUDNN_TRY(set_attribute(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->graph),
              "an engine");
    CUDNN_TRY(set_attribute(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index), "an engine");
    CUDNN_TRY(set_target(target, *engine, CUDNN_ATTR_ENGINE_DEVICEPROP), "an engine");
    *built = cudnnBackendFinalize(*engine) == CUDNN_STATUS_SUCCESS;
done:
    return status;
}

static d9_status make_config(d9_context *context, const d9_cudnn_choice *choice, cudnnBackendDescriptor_t engine,
                             cudnnBackendDescriptor_t *config, bool *built) {
    d9_status status = D9_OK;
    cudnnBackendDescriptor_t knobs[D9_CUDNN_KNOBS] = {NULL};
    *built = true;
    for (int k = 0; k < choice->knob_count; k++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)choice->knob[k];
        CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[k]), "a knob");
        if (set_attribute(knobs[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) !=
                CUDNN_STATUS_SUCCESS ||
            set_attribute(knobs[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &choice->value[k]) !=
                CUDNN_STATUS_SUCCESS ||
            cudnnBackendFinalize(knobs[k]) != CUDNN_STATUS_SUCCESS)
            *built = false;
    }
    if (!*built) goto done;
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, config), "a configuration");
    CUDNN_TRY(set_attribute(*config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine),
              "a configuration");
    if (choice->knob_count > 0)
        *built = set_attribute(*config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               choice->knob_count, knobs) == CUDNN_STATUS_SUCCESS;
    *built = *built && cudnnBackendFinalize(*config) == CUDNN_STATUS_SUCCESS;
done:
    for (int k = 0; k < D9_CUDNN_KNOBS; k++) destroy(&knobs[k]);
    return status;
}

d9_status d9_cudnn_plan_make(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *g,
                             const d9_cudnn_choice *choice, d9_cudnn_plan *p, bool *built) {
    d9_status status;
    int64_t one;
    *p = (d9_cudnn_plan){0};
    D9_TRY(make_engine(context, target, g, choice->engine, &p->engine, built));
    if (*built) D9_TRY(make_config(context, choice, p->engine, &p->config, built));
    if (!*built) goto done;
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan), "a plan");
    if (target->handle)
        CUDNN_TRY(set_attribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle),
                  "a plan");
    CUDNN_TRY(set_target(target, p->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP), "a plan");
    CUDNN_TRY(
        set_attribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p->config),
        "a plan");
    *built = cudnnBackendFinalize(p->plan) == CUDNN_STATUS_SUCCESS;
    if (!*built) goto done;
    CUDNN_TRY(cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one,
                                       &p->workspace_bytes),
              "a plan's workspace");
done:
    if (status != D9_OK || !*built) d9_cudnn_plan_free(p);
    return status;
}

void d9_cudnn_plan_free(d9_cudnn_plan *p) {
    destroy(&p->pack);
    destroy(&p->plan);
    destroy(&p->config);
    destroy(&p->engine);
}

d9_status d9_cudnn_run(d9_context *context, cudnnHandle_t handle, const d9_cudnn_graph *g, d9_cudnn_plan *p,
                       void *const data[D9_CONV_ARGUMENTS], void *workspace) {
    d9_status status;
    int64_t ids[D9_CONV_ARGUMENTS];
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) ids[a] = g->description.tensor[a].id;
    destroy(&p->pack); /* the pointers of a finalized pack cannot be changed */
    CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &p->pack), "a plan's arguments");
    CUDNN_TRY(set_attribute(p->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, D9_CONV_ARGUMENTS, ids),
              "ids");
    CUDNN_TRY(
        set_attribute(p->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, D9_CONV_ARGUMENTS, data),
        "pointers");
    CUDNN_TRY(set_attribute(p->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace),
              "a workspace");
    CUDNN_TRY(cudnnBackendFinalize(p->pack), "a plan's arguments");
    CUDNN_TRY(cudnnBackendExecute(handle, p->plan, p->pack), "a convolution");
done:
    return status;
}
