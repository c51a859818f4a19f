/* A plan covers a list of nodes with rules and runs the rules in order. The first uncovered node gets the longest rule
 * that fits there, of those that a forced plan allows.
 *
 * The plan's text has one line per rule, in list order: "RULE<TAB>ROLE<TAB>CHOICE". ROLE is the first node's role, with
 * the prefix "eval:" in the evaluation list and "phase1:" in the list of the program's first phase, so that one file
 * can hold the texts of all lists. In d9_backend_options.force_plan, the lines of a list must cover it exactly; a
 * list without any line is planned freely. An editor may have saved it: a line may end with a carriage return, and the
 * tab before an empty CHOICE may be missing. */
#include "backends/host/plan.h"
#include "backends/host/shapes.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

enum { ROLE_SIZE = D9_NAME_SIZE + 16 }; /* bytes of a role with the prefix of its list */

typedef struct forced_line {
    const char *rule; /* name in the backend's tables */
    char role[ROLE_SIZE], choice[96];
    int number; /* line number in the text, from 1 */
    bool used;
} forced_line;

typedef struct planner {
    d9_context *context;
    d9_plan *plan;
    forced_line *lines, **followed; /* followed (node_count): line of each placed rule; NULL: none */
    int line_count;                 /* lines for the node list that is planned; 0: nothing is forced */
} planner;

/* Prefix of the roles of a plan's node list: "", "eval:", "phase1:", ... */
static void list_prefix(const d9_plan *plan, char name[ROLE_SIZE]) {
    name[0] = 0;
    if (plan->graph == &plan->program->eval) snprintf(name, ROLE_SIZE, "eval:");
    for (int p = 0; p < plan->program->phase_count; p++)
        if (plan->graph == &plan->program->phase[p].list) snprintf(name, ROLE_SIZE, "phase%d:", p + 1);
}

/* True if the prefix of `role` is that of the plan's node list. Roles themselves contain no colon. */
static bool is_of_list(const d9_plan *plan, const char *role) {
    char name[ROLE_SIZE];
    list_prefix(plan, name);
    return strcspn(role, ":") == strlen(role) ? !*name : strncmp(role, name, strcspn(role, ":") + 1) == 0;
}

static void role_text(const d9_plan *plan, const d9_node *node, char text[ROLE_SIZE]) {
    list_prefix(plan, text);
    snprintf(text + strlen(text), ROLE_SIZE - strlen(text), "%s", node->role);
}

/* ---- the forced plan ---- */

static bool role_known(const d9_plan *plan, const char *role) {
    char text[ROLE_SIZE];
    for (d9_node_id n = 0; n < plan->graph->node_count; n++) {
        role_text(plan, &plan->graph->nodes[n], text);
        if (strcmp(text, role) == 0) return true;
    }
    return false;
}

/* The rule's name as stored in the tables; NULL if there is no such rule. */
static const char *find_rule_name(const d9_device_kind *kind, const char *name) {
    for (const d9_rule *const *table = kind->rules; *table; table++)
        for (const d9_rule *rule = *table; rule->name; rule++)
            if (strcmp(rule->name, name) == 0) return rule->name;
    return NULL;
}

/* Parses one line; skips it if it is empty or belongs to another node list. */
static d9_status parse_line(planner *p, const char *text, size_t length, int number) {
    forced_line *line = &p->lines[p->line_count];
    char copy[256], *rest = copy;
    if (length > 0 && text[length - 1] == '\r') length--;
    if (length == 0) return D9_OK;
    snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy - 1), text);
    const char *rule = strsep(&rest, "\t"), *role = strsep(&rest, "\t");
    if (!rule || !role) return d9_fail(p->context, D9_USAGE, "plan line %d: must be RULE<TAB>ROLE<TAB>CHOICE", number);
    if (!is_of_list(p->plan, role)) return D9_OK;
    line->rule = find_rule_name(p->plan->device->kind, rule);
    if (!line->rule)
        return d9_fail(p->context, D9_USAGE, "plan line %d: this backend has no rule named %s", number, rule);
    if (!role_known(p->plan, role))
        return d9_fail(p->context, D9_USAGE, "plan line %d: this network has no node named %s", number, role);
    snprintf(line->role, sizeof line->role, "%s", role);
    snprintf(line->choice, sizeof line->choice, "%s", rest ? rest : "");
    line->number = number;
    p->line_count++;
    return D9_OK;
}

static d9_status parse_forced_plan(planner *p) {
    d9_status status = D9_OK;
    const char *text = p->plan->device->options.force_plan;
    int capacity = 1, number = 1;
    if (!text) return D9_OK;
    for (const char *at = text; *at; at++) capacity += *at == '\n';
    D9_TRY(D9_ALLOCATE(p->context, capacity, "the plan to follow", &p->lines));
    for (const char *at = text; *at; number++) {
        size_t length = strcspn(at, "\n");
        D9_TRY(parse_line(p, at, length, number));
        at += length + (at[length] == '\n');
    }
done:
    return status;
}

/* The first unused line for this rule at this node; NULL: none. */
static forced_line *find_line(const planner *p, const d9_rule *rule, const d9_node *node) {
    char role[ROLE_SIZE];
    role_text(p->plan, node, role);
    for (int i = 0; i < p->line_count; i++) {
        forced_line *line = &p->lines[i];
        if (!line->used && strcmp(line->rule, rule->name) == 0 && strcmp(line->role, role) == 0) return line;
    }
    return NULL;
}

static d9_status check_all_followed(const planner *p) {
    for (int i = 0; i < p->line_count; i++)
        if (!p->lines[i].used)
            return d9_fail(p->context, D9_USAGE, "plan line %d: the rule %s does not fit %s", p->lines[i].number,
                           p->lines[i].rule, p->lines[i].role);
    return D9_OK;
}

/* ---- choosing and preparing rules ---- */

static void fill_site(const d9_plan *plan, const d9_rule *rule, d9_node_id first, d9_site *site) {
    const d9_device *device = plan->device;
    *site = (d9_site){.program = plan->program,
                      .graph = plan->graph,
                      .node_count = rule->node_count,
                      .buffers = device->buffers,
                      .threads = device->threads,
                      .options = &device->options,
                      .backend = device->backend,
                      .plan = plan};
    for (int n = 0; n < rule->node_count; n++) site->nodes[n] = &plan->graph->nodes[first + n];
}

/* Returns true if the rule fits at `first` and is longer than `best` (NULL: any). With fusing off, the rule must also
 * cover a single node; with a forced plan, an unused line must name the rule here. If true, sets *site, and *line to
 * that line (NULL without a forced plan). */
static bool accept_if_better(const planner *p, const d9_rule *rule, const d9_rule *best, d9_node_id first,
                             d9_site *site, forced_line **line) {
    const d9_plan *plan = p->plan;
    d9_site candidate;
    forced_line *wanted = NULL;
    if (first + rule->node_count > plan->graph->node_count || (best && rule->node_count <= best->node_count))
        return false;
    if (rule->node_count > 1 && !plan->device->options.fuse) return false;
    if (p->line_count > 0 && !(wanted = find_line(p, rule, &plan->graph->nodes[first]))) return false;
    fill_site(plan, rule, first, &candidate);
    if (!d9_rule_fits(rule, &candidate)) return false;
    *site = candidate;
    *line = wanted;
    return true;
}

static const d9_rule *choose_rule(const planner *p, d9_node_id first, d9_site *site, forced_line **line) {
    const d9_rule *best = NULL;
    for (const d9_rule *const *table = p->plan->device->kind->rules; *table; table++)
        for (const d9_rule *rule = *table; rule->name; rule++)
            if (accept_if_better(p, rule, best, first, site, line)) best = rule;
    return best;
}

static d9_status fail_without_rule(const planner *p, const d9_node *node) {
    if (p->line_count > 0)
        return d9_fail(p->context, D9_USAGE, "the plan has no line that fits %s %s", d9_op_name(node->op), node->role);
    return d9_fail(p->context, D9_DEVICE, "no rule of this backend covers %s %s", d9_op_name(node->op), node->role);
}

static d9_status place_rule(planner *p, d9_node_id first) {
    d9_plan *plan = p->plan;
    d9_placed_rule *placed = &plan->placed[plan->placed_count];
    forced_line *line = NULL;
    placed->rule = choose_rule(p, first, &placed->site, &line);
    if (!placed->rule) return fail_without_rule(p, &plan->graph->nodes[first]);
    placed->first = first;
    if (line) line->used = true;
    p->followed[plan->placed_count++] = line;
    return D9_OK;
}

static d9_status prepare_rule(planner *p, int i) {
    d9_status status = D9_OK;
    d9_plan *plan = p->plan;
    d9_placed_rule *placed = &plan->placed[i];
    const forced_line *line = p->followed[i];
    char role[ROLE_SIZE];
    plan->prepared_count++;
    if (line) memcpy(placed->site.wanted, line->choice, sizeof line->choice);
    if (placed->rule->prepare) D9_TRY(placed->rule->prepare(p->context, &placed->site));
    if (line && strcmp(line->choice, placed->site.choice) != 0)
        D9_TRY(d9_fail(p->context, D9_USAGE, "plan line %d: %s has no choice '%s' for %s here", line->number,
                       line->rule, line->choice, line->role));
    role_text(plan, &plan->graph->nodes[placed->first], role);
    d9_text_add(&plan->text, "%s\t%s\t%s\n", placed->rule->name, role, placed->site.choice);
done:
    return status;
}

d9_status d9_host_plan(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                       d9_plan **plan) {
    d9_status status;
    planner p = {.context = context};
    *plan = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "a plan", &p.plan));
    *p.plan = (d9_plan){.device = device, .program = program, .graph = graph, .batches = 1};
    for (int i = 0; i < program->phase_count; i++)
        if (graph == &program->phase[i].list) p.plan->batches = program->phase[i].batches;
    d9_text_init(context, &p.plan->text);
    D9_TRY(D9_ALLOCATE(context, graph->node_count, "a plan", &p.plan->placed));
    D9_TRY(D9_ALLOCATE(context, graph->node_count, "a plan", &p.followed));
    D9_TRY(parse_forced_plan(&p));
    for (d9_node_id n = 0; n < graph->node_count; n += p.plan->placed[p.plan->placed_count - 1].rule->node_count)
        D9_TRY(place_rule(&p, n));
    for (int i = 0; i < p.plan->placed_count; i++) D9_TRY(prepare_rule(&p, i));
    D9_TRY(check_all_followed(&p));
    D9_TRY(d9_text_status(&p.plan->text));
    *plan = p.plan;
    p.plan = NULL;
done:
    d9_host_plan_free(context, p.plan);
    d9_release(context, p.lines);
    d9_release(context, p.followed);
    return status;
}

const d9_site *d9_site_producer(const d9_site *site, d9_value_id value) {
    const d9_plan *plan = site->plan;
    for (int p = 0; p < plan->placed_count && &plan->placed[p].site != site; p++)
        if (d9_site_writes(&plan->placed[p].site, value)) return &plan->placed[p].site;
    return NULL;
}

bool d9_site_must_write(const d9_site *site, d9_value_id value) {
    const d9_plan *plan = site->plan;
    if (plan->program->keep_all) return true;
    for (int p = 0; p < plan->placed_count; p++) {
        const d9_placed_rule *other = &plan->placed[p];
        if (&other->site == site || (other->rule->recomputes && other->rule->recomputes(&other->site, value))) continue;
        for (int n = 0; n < other->site.node_count; n++)
            for (int i = 0; i < other->site.nodes[n]->input_count; i++)
                if (other->site.nodes[n]->inputs[i] == value) return true;
    }
    return false;
}

void d9_host_plan_free(d9_context *context, d9_plan *plan) {
    if (!plan) return;
    for (int i = 0; i < plan->prepared_count; i++)
        if (plan->placed[i].rule->release) plan->placed[i].rule->release(context, &plan->placed[i].site);
    d9_release(context, plan->placed);
    d9_text_free(&plan->text);
    d9_release(context, plan);
}

const char *d9_host_plan_text(const d9_plan *plan) { return d9_text_get(&plan->text); }

/* ---- running ---- */

d9_status d9_host_run(d9_context *context, d9_plan *plan, int64_t step) {
    double before = d9_clock_now();
    for (int i = 0; i < plan->placed_count; i++) {
        d9_placed_rule *placed = &plan->placed[i];
        if (!d9_plan_active(plan, i, step)) continue;
        d9_status status = placed->rule->run(context, &placed->site, step);
        if (status != D9_OK) return status;
        double after = d9_clock_now();
        placed->seconds += after - before;
        placed->runs++;
        before = after;
    }
    return D9_OK;
}

d9_status d9_host_benchmark(d9_context *context, d9_plan *plan, int row, d9_choice_time *rows, int capacity,
                            int *count) {
    d9_placed_rule *placed = &plan->placed[row];
    *count = 0;
    memset(rows, 0, (size_t)capacity * sizeof *rows);
    if (!placed->rule->benchmark) return D9_OK;
    return placed->rule->benchmark(context, &placed->site, rows, capacity, count);
}

int d9_host_times(d9_plan *plan, d9_rule_time *rows, int capacity, bool reset) {
    for (int i = 0; i < plan->placed_count; i++) {
        d9_placed_rule *placed = &plan->placed[i];
        if (rows && i < capacity)
            rows[i] = (d9_rule_time){placed->first,
                                     placed->rule->name,
                                     placed->site.choice,
                                     placed->site.why,
                                     placed->seconds,
                                     placed->runs,
                                     placed->rule->in_f32,
                                     placed->site.rounds_transforms,
                                     placed->site.tf32_outputs};
        if (reset) {
            placed->seconds = 0;
            placed->runs = 0;
        }
    }
    return plan->placed_count;
}
