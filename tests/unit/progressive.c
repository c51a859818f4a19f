/* The trick progressive: the first steps' own list over the same state, the backends alike in it, and the time that is
 * left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/edit.h"
#include "graph/op.h"
#include "tests/support/programs.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static d9_context context;

static int set_up(void **state) {
    (void)state;
    d9_context_init(&context);
    return 0;
}

/* 12 steps of 8 images, 16 x 16. */
static d9_config *configure(const char *model, const char *backend, const char *tricks) {
    char yaml[1024];
    snprintf(yaml, sizeof yaml,
             "data: {dataset: synthetic, synthetic_train: 32, synthetic_test: 12, image_size: 16}\n"
             "backend: %s\nprecision: f32\nthreads: 1\nmodel: {%s}\n"
             "train: {epochs: 3, batch_size: 8, lr: {knots: [0], values: [0.1]}}\ntricks: {%s}\n",
             backend, model, tricks);
    return program_config(&context, yaml);
}

static const char resnet9[] = "name: resnet9, channels: [4, 6, 8, 10]";

static void make(const d9_config *config, d9_program *program) {
    const d9_extent extent = program_extent(config, 32, 16);
    program_make(&context, config, &extent, "f32", false, program);
}

static void test_two_lists_over_one_state(void **state) {
    (void)state;
    d9_program program;
    d9_config *config =
        configure(resnet9, "auto",
                  "crop: {pad: 2}, cutout: {size: 3}, ema: {}, mixup: {}, progressive: {scale: 0.6, share: 0.3}");
    make(config, &program);
    const d9_graph *early = &program.early, *train = &program.train;
    program_check_graph(early);
    assert_int_equal(program.steps, 12);
    assert_int_equal(program.early_steps, 4); /* of 3.6 */
    assert_true(d9_program_list(&program, 3) == early && d9_program_list(&program, 4) == train);
    const d9_shape *small = &early->values[early->image].shape, *whole = &train->values[train->image].shape;
    assert_true(small->d[1] == 10 && small->d[2] == 10 && whole->d[1] == 16 && whole->d[2] == 16);
    const d9_draw_attributes *draw = &early->nodes[program_find(early, D9_OP_DRAW, "draws")].as.draw;
    assert_true(draw->height == 16 && draw->out_height == 10 && draw->out_width == 10 && draw->pad == 2);
    assert_int_equal(train->nodes[program_find(train, D9_OP_DRAW, "draws")].as.draw.out_height, 16);
    int shared = 0;
    for (int v = 0; v < early->value_count; v++) {
        const d9_value *value = &early->values[v];
        if (value->buffer == D9_BUFFER_SCRATCH) continue;
        const d9_value_id same = d9_graph_find_value(train, value->name);
        assert_true(same != D9_NONE && train->values[same].buffer == value->buffer &&
                    train->values[same].offset == value->offset &&
                    d9_shape_equal(&train->values[same].shape, &value->shape));
        shared++;
    }
    assert_true(shared > 40); /* parameters, gradients, statistics, the data set, averages */
    for (d9_op op = D9_OP_UPDATE; op <= D9_OP_COPY; op++)
        for (d9_node_id n = d9_edit_next(train, op, 0), m = d9_edit_next(early, op, 0); n != D9_NONE || m != D9_NONE;
             n = d9_edit_next(train, op, n + 1), m = d9_edit_next(early, op, m + 1)) {
            assert_true(n != D9_NONE && m != D9_NONE);
            assert_string_equal(train->nodes[n].role, early->nodes[m].role);
        }
    d9_program_free(&context, &program);
    d9_config_free(&context, config);
}

static void test_a_share_of_no_step(void **state) {
    (void)state;
    d9_program program;
    d9_config *config = configure(resnet9, "auto", "progressive: {share: 0.01}");
    make(config, &program);
    assert_int_equal(program.early_steps, 0);
    assert_int_equal(program.early.node_count, 0);
    d9_program_free(&context, &program);
    d9_config_free(&context, config);
}

static void refuse(const char *model, const char *tricks, const char *message) {
    d9_session session;
    d9_config *config = configure(model, "reference", tricks);
    assert_int_equal(d9_session_open(&context, &(d9_session_options){.config = config, .seed = 5}, &session), D9_USAGE);
    assert_string_equal(context.message, message);
    d9_context_clear(&context);
    d9_config_free(&context, config);
}

static void test_what_smaller_images_do_not_fit(void **state) {
    (void)state;
    refuse("name: vgg, channels: [3, 4], hidden: 6", "progressive: {}",
           "progressive: the shape of fc1.weight depends on the size of the images: this network cannot begin with "
           "12x12 of 16x16");
    refuse("name: airbench, widths: [4, 6, 6]", "progressive: {scale: 0.5}",
           "images of 8x8 are too small for airbench: it needs 9 pixels a side");
    refuse(resnet9, "cutout: {size: 13}, progressive: {}",
           "images of 12x12 have room for a cutout of at most 12 pixels, not of 13");
}

/* The state after `steps` steps. */
static double *train(const char *backend, const char *tricks, int64_t steps, int64_t *count) {
    d9_session session;
    d9_config *config = configure(resnet9, backend, tricks);
    op_ok(&context, d9_session_open(&context, &(d9_session_options){.config = config, .seed = 5}, &session));
    op_ok(&context, d9_session_initialize(&session));
    for (int64_t step = 0; step < steps; step++) {
        if (step % session.program.steps_per_epoch == 0) op_ok(&context, d9_session_begin_epoch(&session, step));
        op_ok(&context, d9_session_step(&session, step));
    }
    *count = session.program.state_elements;
    double *state = calloc((size_t)*count, sizeof *state);
    op_ok(&context, d9_session_read_state(&session, D9_BUFFER_STATE, state));
    d9_session_close(&session);
    d9_config_free(&context, config);
    return state;
}

static double distance(const double *a, const double *b, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* Through the change of lists, which is before step 2: no step is like one on whole images. */
static void test_backends_agree(void **state) {
    static const char tricks[] = "crop: {pad: 2}, flip: {}, progressive: {share: 0.2}",
                      plain[] = "crop: {pad: 2}, flip: {}";
    (void)state;
    for (int64_t steps = 1; steps <= 3; steps++) {
        int64_t count;
        double *reference = train("reference", tricks, steps, &count), *cpu = train("cpu", tricks, steps, &count),
               *whole = train("reference", plain, steps, &count);
        assert_true(distance(reference, cpu, count) < 1e-4);
        assert_true(distance(reference, whole, count) > 1e-2);
        free(reference);
        free(cpu);
        free(whole);
    }
}

/* The text of all lists forces each of them, and their lines are told apart. */
static void test_a_plan_of_each_list(void **state) {
    d9_session session, again;
    char text[16384];
    d9_config *config = configure(resnet9, "cpu", "progressive: {}");
    (void)state;
    op_ok(&context, d9_session_open(&context, &(d9_session_options){.config = config, .seed = 5}, &session));
    const char *(*plan_text)(const d9_plan *) = session.backend->plan_text;
    snprintf(text, sizeof text, "%s%s%s", plan_text(session.eval_plan), plan_text(session.early_plan),
             plan_text(session.train_plan));
    const d9_session_options options = {.config = config, .seed = 5, .plan = text};
    op_ok(&context, d9_session_open(&context, &options, &again));
    assert_string_equal(plan_text(again.early_plan), plan_text(session.early_plan));
    assert_string_equal(plan_text(again.train_plan), plan_text(session.train_plan));
    d9_session_close(&again);
    char *line = strstr(text, "\tearly:draws\t");
    line[7] = 'x'; /* a node that is not there */
    assert_int_equal(d9_session_open(&context, &options, &again), D9_USAGE);
    assert_non_null(strstr(context.message, "this network has no node named early:xraws"));
    d9_context_clear(&context);
    d9_session_close(&session);
    d9_config_free(&context, config);
}

/* Two first steps are not three: the third step tells. */
static void test_the_lists_change_in_time(void **state) {
    int64_t count;
    double *two = train("reference", "progressive: {share: 0.2}", 2, &count),
           *three = train("reference", "progressive: {share: 0.25}", 2, &count);
    (void)state;
    assert_true(distance(two, three, count) == 0);
    free(two);
    free(three);
    two = train("reference", "progressive: {share: 0.2}", 3, &count);
    three = train("reference", "progressive: {share: 0.25}", 3, &count);
    assert_true(distance(two, three, count) > 1e-3);
    free(two);
    free(three);
}

static double operations(const d9_graph *graph) { return d9_graph_operations(graph, 0, graph->node_count); }

/* A step is timed where it stands: later ones of the other list take as much longer as they have more operations. */
static void test_seconds_left(void **state) {
    (void)state;
    d9_program program;
    d9_config *config = configure(resnet9, "auto", "progressive: {share: 0.5}");
    config->eval.every = 0;
    make(config, &program);
    const double larger = operations(&program.train) / operations(&program.early),
                 evaluation = 2 * operations(&program.eval) / operations(&program.train); /* 16 images */
    assert_true(larger > 1.5 && larger < 2);                                              /* (16 / 12)^2 = 1.78 */
    assert_true(fabs(d9_seconds_left(&program, config, 0, 1) - (6 + larger * (6 + evaluation))) < 1e-9);
    assert_true(fabs(d9_seconds_left(&program, config, 6, 1) - larger * (6 + evaluation)) < 1e-9);
    assert_true(fabs(d9_seconds_left(&program, config, 7, 1) - (5 + evaluation)) < 1e-9);
    d9_program_free(&context, &program);
    d9_config_free(&context, config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_two_lists_over_one_state, set_up),
        cmocka_unit_test_setup(test_a_share_of_no_step, set_up),
        cmocka_unit_test_setup(test_what_smaller_images_do_not_fit, set_up),
        cmocka_unit_test_setup(test_backends_agree, set_up),
        cmocka_unit_test_setup(test_a_plan_of_each_list, set_up),
        cmocka_unit_test_setup(test_the_lists_change_in_time, set_up),
        cmocka_unit_test_setup(test_seconds_left, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
