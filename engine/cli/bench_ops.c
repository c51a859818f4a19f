/* dawn9 bench ops: every way to compute each rule that has a choice (the convolutions), timed alone.
 *
 * "bare" is the library's own call without the reorders around it: the fastest bare times, summed, are what a step
 * could take if it were convolutions and nothing else. */
#include "cli/bench.h"
#include "core/system.h"
#include "graph/op.h"

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

/* How many rows from the first on are of the same node. */
static int ways_of_node(const d9_choice_time *ways, int count) {
    int length = 1;
    while (length < count && ways[length].node == ways->node) length++;
    return length;
}

/* The ways of one node. Its time in the step is that of its rule. */
static void print_ways(d9_cli *cli, const d9_measurement *m, int row, const d9_choice_time *ways, int count) {
    const d9_node_time *time = &m->rows[row];
    const int n = time->node + ways->node;
    const d9_node *node = &m->graph->nodes[n];
    const double operations = d9_graph_operations(m->graph, n, n + 1);
    d9_cli_print(cli, "%s %s: %.2f GFLOP, %.3f ms in the step%s%s%s%s\n", d9_op_name(node->op), node->role,
                 1e-9 * operations, 1e3 * time->seconds / (double)m->steps,
                 strchr(time->rule, '+') ? " by the rule " : "", strchr(time->rule, '+') ? time->rule : "",
                 time->why[0] ? ": " : "", time->why);
    for (int i = 0; i < count; i++)
        d9_cli_print(cli, "  %s %-44s %9.3f ms %9.3f bare %9.1f GFLOP/s\n",
                     strcmp(ways[i].choice, time->choice) == 0 ? "*" : " ", ways[i].choice, 1e3 * ways[i].seconds,
                     1e3 * ways[i].bare_seconds, 1e-9 * operations / ways[i].bare_seconds);
}

static json_t *ways_json(const d9_measurement *m, int row, const d9_choice_time *ways, int count) {
    const d9_node_time *time = &m->rows[row];
    const int n = time->node + ways->node;
    const d9_node *node = &m->graph->nodes[n];
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "choice", ways[i].choice, "seconds", ways[i].seconds,
                                              "bare_seconds", ways[i].bare_seconds));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:o}", "node", d9_op_name(node->op), "role", node->role,
                     "rule", time->rule, "choice", time->choice, "why", time->why, "gflop",
                     1e-9 * d9_graph_operations(m->graph, n, n + 1), "seconds_in_step",
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
        if (session->backend->benchmark)
            D9_TRY(session->backend->benchmark(session->context, m->plan, row, ways, MAX_WAYS, &count));
        if (count > 0) s.in_step += m->rows[row].seconds / (double)m->steps;
        for (int at = 0, length; at < count; at += length) {
            length = ways_of_node(ways + at, count - at);
            s.fastest += least(ways + at, length, false)->seconds;
            s.bare += least(ways + at, length, true)->bare_seconds;
            if (json)
                json_array_append_new(rows, ways_json(m, row, ways + at, length));
            else
                print_ways(cli, m, row, ways + at, length);
        }
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
