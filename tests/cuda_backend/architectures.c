/* Asks cuDNN about every convolution of every configuration in configs/, those of phases included, in each precision
 * that the backend supports on the card: cuDNN must offer a choice whose plan fits the backend's workspace limit. The
 * cards, one of each architecture, take turns, so a convolution is tried on one or two of them; on all with
 * `test_cuda_backend_architectures all`. Runs without a GPU; cudnn.c says what this does not prove. */
#include "core/system.h"
#include "tests/cuda_backend/deviceless.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"
#include "train/session.h"
#include <glob.h>

enum { CHOICES = 128, MOST = 1024, CIFAR10_IMAGES = 50000 };
enum { FP16, F32, BF16, TF32, PRECISIONS };
static const char *const precisions[] = {"fp16", "f32", "bf16", "tf32"};

typedef struct question { /* a convolution that cuDNN is asked about */
    d9_cudnn_description description;
    char text[D9_CONV_TEXT];
} question;

typedef struct fixture {
    int count[PRECISIONS];
    question (*questions)[MOST]; /* (PRECISIONS), without duplicates */
    int of_phases;               /* how many of them were first found in the list of a phase */
    d9_cudnn_choice *choices;    /* (CHOICES) */
    int turns;                   /* every `turns`-th convolution is tried on a card */
} fixture;

static void add_once(fixture *f, int precision, const d9_cudnn_description *description) {
    int *count = &f->count[precision];
    question *asked = f->questions[precision], *next = &asked[*count];
    assert_true(*count < MOST);
    next->description = *description;
    d9_conv_text(description, next->text);
    for (int i = 0; i < *count; i++)
        if (strcmp(asked[i].text, next->text) == 0) return;
    (*count)++;
}

static void add_graph(fixture *f, int precision, const d9_program *program, const d9_graph *graph) {
    d9_cudnn_description description;
    for (d9_node_id n = 0; test_next_conv(program, graph, &n, &description);) add_once(f, precision, &description);
}

static void add_configuration(fixture *f, const char *path) {
    d9_config *config = program_load(path, NULL);
    d9_extent extent = program_extent(config, CIFAR10_IMAGES, config->data.image_size);
    bool counted;
    if (config->model->texts) OK(d9_config_extent(&context, config, &extent, &counted));
    if (extent.train_tokens) extent.vocabulary = extent.classes = 33278; /* of WikiText-2 */
    for (int p = 0; p < PRECISIONS; p++) {
        const d9_program *program = program_make(config, &extent, precisions[p], false);
        add_graph(f, p, program, &program->train);
        add_graph(f, p, program, &program->eval);
        const int before = f->count[p];
        for (int i = 0; i < program->phase_count; i++) add_graph(f, p, program, &program->phase[i].list);
        f->of_phases += f->count[p] - before;
    }
}

static void add_folder(fixture *f, const char *pattern, size_t least) { /* `least`: smallest number of files expected */
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= least);
    for (size_t i = 0; i < found.gl_pathc; i++) add_configuration(f, found.gl_pathv[i]);
    globfree(&found);
}

TEST(convolutions_of_all_configurations_are_collected) {
    fixture *f = *state;
    add_folder(f, D9_SOURCE_DIR "/configs/*.yaml", 4);
    add_folder(f, D9_SOURCE_DIR "/configs/ladder/*.yaml", 13);
    for (int p = 0; p < PRECISIONS; p++) assert_true(f->count[p] >= 50);
    assert_true(f->of_phases >= 100); /* fewest94 trains on images of 24 and 28 pixels too */
}

/* Index of the first choice, best first, that can be built within the workspace limit; -1: none. */
static int first_plan(fixture *f, const d9_cudnn_target *target, const d9_cudnn_description *description) {
    d9_cudnn_graph graph;
    int count, first = -1;
    OK(d9_cudnn_graph_make(&context, target, description, &graph));
    OK(d9_cudnn_choices(&context, target, &graph, f->choices, CHOICES, &count));
    for (int i = 0; i < count && first < 0; i++) {
        d9_cudnn_plan plan;
        bool built;
        OK(d9_cudnn_plan_make(&context, target, &graph, &f->choices[i], &plan, &built));
        if (built && plan.workspace_bytes <= D9_CUDNN_MOST_WORKSPACE_BYTES) first = i;
        d9_cudnn_plan_free(&plan);
    }
    d9_cudnn_graph_free(&graph);
    return first;
}

/* Returns the number of convolutions without a plan on the card; adds the number that were tried to *asked. */
static int count_without_plan(fixture *f, int card, int precision, int *asked) {
    const test_device *device = &test_devices[card];
    d9_cudnn_target target;
    int without = 0;
    OK(test_device_open(&context, device, &target));
    for (int i = card % f->turns; i < f->count[precision]; i += f->turns, ++*asked) {
        const question *q = &f->questions[precision][i];
        if (first_plan(f, &target, &q->description) >= 0) continue;
        print_error("%s has no plan for %s\n", device->name, q->text);
        without++;
    }
    cudnnBackendDestroyDescriptor(target.properties);
    return without;
}

TEST(every_convolution_has_a_plan) {
    fixture *f = *state;
    int without = 0, asked = 0;
    for (int d = 0; d < TEST_DEVICES; d++) {
        const int count =
            test_devices[d].version < 80 ? BF16 : PRECISIONS; /* bf16 and tf32 need compute capability 8.0 */
        for (int p = 0; p < count; p++) without += count_without_plan(f, d, p, &asked);
    }
    print_message("%d questions\n", asked);
    assert_true(asked >= 1300 / f->turns);
    assert_int_equal(without, 0);
}

/* Shows that first_plan can fail: a T4 has no bf16. */
TEST(a_type_that_a_card_lacks_has_no_plan) {
    fixture *f = *state;
    d9_cudnn_target target;
    OK(test_device_open(&context, &test_devices[0], &target));
    assert_int_equal(first_plan(f, &target, &f->questions[BF16][0].description), -1);
    cudnnBackendDestroyDescriptor(target.properties);
}

TEST_MAIN(count, arguments) {
    static fixture f = {.turns = 6};
    void *questions = NULL, *choices = NULL;
    d9_context_init(&context);
    if (cudnnGetVersion() < 91100) return skipped("cudnn", "its library knows no device properties; that of 9.11 does");
    if (d9_allocate(&context, PRECISIONS * sizeof *f.questions, "questions", &questions) != D9_OK ||
        d9_allocate(&context, CHOICES * sizeof(d9_cudnn_choice), "choices", &choices) != D9_OK) {
        print_error("%s\n", context.message);
        return 1;
    }
    if (count == 2 && strcmp(arguments[1], "all") == 0) f.turns = 1;
    test_keep_nvrtc_open();
    f.questions = questions;
    f.choices = choices;
    const int failed = test_run(&f);
    d9_release(&context, f.choices), d9_release(&context, f.questions);
    return failed;
}
