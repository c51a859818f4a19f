/* dawn9 bench ops: times the algorithms of the rules that have a choice: convolutions, on CUDA also batch norms.
 *
 * "bare" is the time of the algorithm alone, without conversions of the layout. */
#include "cli/bench.h"
#include "core/system.h"
#include "graph/op.h"

#include <string.h>

enum { MAX_ALGORITHMS = 256 };

typedef struct sums { /* seconds per step, summed over the rules with a choice */
    double in_step, fastest, fastest_bare;
} sums;

static const d9_choice_time *fastest(const d9_choice_time *choices, int count, bool bare) {
    const d9_choice_time *best = &choices[0];
    for (int i = 1; i < count; i++)
        if (bare ? choices[i].bare_seconds < best->bare_seconds : choices[i].seconds < best->seconds)
            best = &choices[i];
    return best;
}

/* Number of entries, from choices[0] on, that belong to the same node of the rule as choices[0]. */
static int count_of_node(const d9_choice_time *choices, int count) {
    int length = 1;
    while (length < count && choices[length].node == choices->node) length++;
    return length;
}

/* Prints the algorithms of one node. The time "in the step" is that of the whole rule that computes the node. */
static void print_algorithms(d9_cli *cli, const d9_measurement *m, int row, const d9_choice_time *choices, int count) {
    const d9_rule_time *time = &m->rows[row];
    const int n = time->node + choices->node;
    const d9_node *node = &m->graph->nodes[n];
    const double operations = d9_graph_operations(m->graph, n, n + 1);
    d9_cli_print(cli, "%s %s: %.2f GFLOP, %.3f ms in the step%s%s%s%s\n", d9_op_name(node->op), node->role,
                 1e-9 * operations, 1e3 * time->seconds / (double)m->steps,
                 strchr(time->rule, '+') ? " by the rule " : "", strchr(time->rule, '+') ? time->rule : "",
                 time->why[0] ? ": " : "", time->why);
    for (int i = 0; i < count; i++)
        d9_cli_print(cli, "  %s %-44s %9.3f ms %9.3f bare %9.1f GFLOP/s\n",
                     strcmp(choices[i].choice, time->choice) == 0 ? "*" : " ", choices[i].choice,
                     1e3 * choices[i].seconds, 1e3 * choices[i].bare_seconds,
                     1e-9 * operations / choices[i].bare_seconds);
}

static json_t *algorithms_json(const d9_measurement *m, int row, const d9_choice_time *choices, int count) {
    const d9_rule_time *time = &m->rows[row];
    const int n = time->node + choices->node;
    const d9_node *node = &m->graph->nodes[n];
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "choice", choices[i].choice, "seconds",
                                              choices[i].seconds, "bare_seconds", choices[i].bare_seconds));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:o}", "node", d9_op_name(node->op), "role", node->role,
                     "rule", time->rule, "choice", time->choice, "why", time->why, "gflop",
                     1e-9 * d9_graph_operations(m->graph, n, n + 1), "seconds_in_step",
                     time->seconds / (double)m->steps, "algorithms", list);
}

static void print_sums(d9_cli *cli, const d9_measurement *m, const sums *s) {
    const double step = d9_measurement_step_seconds(m);
    if (s->fastest_bare <= 0) {
        d9_cli_print(cli, "no rule of this backend has several algorithms\n");
        return;
    }
    d9_cli_print(cli, "* in the plan. Sums: in the step %.1f ms, fastest algorithms %.1f ms, fastest bare %.1f ms\n",
                 1e3 * s->in_step, 1e3 * s->fastest, 1e3 * s->fastest_bare);
    d9_cli_print(cli, "step %.1f ms: %.2f times the sum of fastest bare, %.2f times that of fastest\n", 1e3 * step,
                 step / s->fastest_bare, step / s->fastest);
}

d9_status d9_bench_ops(d9_cli *cli, d9_session *session, const d9_measurement *m, bool json) {
    d9_status status = D9_OK;
    d9_choice_time choices[MAX_ALGORITHMS];
    sums s = {0};
    json_t *rows = json_array();
    if (!json) d9_bench_print_head(cli, m);
    for (int row = 0; row < m->row_count; row++) {
        int count = 0;
        if (session->backend->benchmark)
            D9_TRY(session->backend->benchmark(session->context, m->plan, row, choices, MAX_ALGORITHMS, &count));
        if (count > 0) s.in_step += m->rows[row].seconds / (double)m->steps;
        for (int at = 0, length; at < count; at += length) {
            length = count_of_node(choices + at, count - at);
            s.fastest += fastest(choices + at, length, false)->seconds;
            s.fastest_bare += fastest(choices + at, length, true)->bare_seconds;
            if (json)
                json_array_append_new(rows, algorithms_json(m, row, choices + at, length));
            else
                print_algorithms(cli, m, row, choices + at, length);
        }
    }
    if (json) {
        json_t *object = d9_bench_json(m, "ops");
        json_object_set_new(object, "seconds_in_step", json_real(s.in_step));
        json_object_set_new(object, "fastest_seconds", json_real(s.fastest));
        json_object_set_new(object, "fastest_bare_seconds", json_real(s.fastest_bare));
        json_object_set(object, "rules", rows);
        d9_cli_print_json(cli, object);
    } else {
        print_sums(cli, m, &s);
    }
done:
    json_decref(rows);
    return status;
}
