/* dawn9 bench ops: every way to compute each rule that has a choice (the convolutions), timed alone.
 *
 * "bare" is the library's own call without the reorders around it: the fastest bare times, summed, are what a step
 * could take if it were convolutions and nothing else. */
#include "cli/bench.h"
#include "core/system.h"

#include <string.h>

enum { MAX_WAYS = 256 };

typedef struct sums {
    double in_step, fastest, bare;
} sums;

static const d9_choice_time *least(const d9_choice_time *ways, int count, bool bare) {
    const d9_choice_time *best = &ways[0];
    for (int i = 1; i < count; i++)
        if (bare ? ways[i].bare_seconds < best->bare_seconds : ways[i].seconds < best->seconds) best = &ways[i];
    return best;
}

static void print_ways(d9_cli *cli, const d9_measurement *m, int row, const d9_choice_time *ways, int count) {
    const d9_node_time *time = &m->rows[row];
    const d9_node *node = &m->graph->nodes[time->node];
    const double operations = d9_measured_operations(m, row);
    d9_cli_print(cli, "%s %s: %.2f GFLOP, %.3f ms in the step%s%s\n", d9_op_name(node->op), node->role,
                 1e-9 * operations, 1e3 * time->seconds / (double)m->steps, time->why[0] ? ": " : "", time->why);
    for (int i = 0; i < count; i++)
        d9_cli_print(cli, "  %s %-44s %9.3f ms %9.3f bare %9.1f GFLOP/s\n",
                     strcmp(ways[i].choice, time->choice) == 0 ? "*" : " ", ways[i].choice, 1e3 * ways[i].seconds,
                     1e3 * ways[i].bare_seconds, 1e-9 * operations / ways[i].bare_seconds);
}

static json_t *ways_json(const d9_measurement *m, int row, const d9_choice_time *ways, int count) {
    const d9_node_time *time = &m->rows[row];
    const d9_node *node = &m->graph->nodes[time->node];
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "choice", ways[i].choice, "seconds", ways[i].seconds,
                                              "bare_seconds", ways[i].bare_seconds));
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:o}", "node", d9_op_name(node->op), "role", node->role, "choice",
                     time->choice, "why", time->why, "gflop", 1e-9 * d9_measured_operations(m, row), "seconds_in_step",
                     time->seconds / (double)m->steps, "ways", list);
}

static void print_sums(d9_cli *cli, const d9_measurement *m, const sums *s) {
    const double step = d9_measured_step_seconds(m);
    if (s->bare <= 0) {
        d9_cli_print(cli, "no rule of this backend has a choice\n");
        return;
    }
    d9_cli_print(cli, "* in the plan. Summed: in the step %.1f ms, fastest way each %.1f ms, fastest bare %.1f ms\n",
                 1e3 * s->in_step, 1e3 * s->fastest, 1e3 * s->bare);
    d9_cli_print(cli, "step %.1f ms: %.2f of the fastest bare sum, %.2f of the fastest with reorders\n", 1e3 * step,
                 step / s->bare, step / s->fastest);
}

d9_status d9_bench_ops(d9_cli *cli, d9_session *session, const d9_measurement *m, bool json) {
    d9_status status = D9_OK;
    d9_choice_time ways[MAX_WAYS];
    sums s = {0};
    json_t *rows = json_array();
    if (!json) d9_bench_head(cli, m);
    for (int row = 0; row < m->row_count; row++) {
        int count = 0;
        if (session->backend->survey)
            D9_TRY(session->backend->survey(session->context, session->train_plan, row, ways, MAX_WAYS, &count));
        if (count == 0) continue;
        s.in_step += m->rows[row].seconds / (double)m->steps;
        s.fastest += least(ways, count, false)->seconds;
        s.bare += least(ways, count, true)->bare_seconds;
        if (json)
            json_array_append_new(rows, ways_json(m, row, ways, count));
        else
            print_ways(cli, m, row, ways, count);
    }
    if (json) {
        json_t *object = d9_bench_json(m, "ops");
        json_object_set_new(object, "seconds_in_step", json_real(s.in_step));
        json_object_set_new(object, "fastest_seconds", json_real(s.fastest));
        json_object_set_new(object, "fastest_bare_seconds", json_real(s.bare));
        json_object_set(object, "rules", rows);
        d9_cli_print_json(cli, object);
    } else {
        print_sums(cli, m, &s);
    }
done:
    json_decref(rows);
    return status;
}
