/* Ablation: arms that remove one trick from the full recipe, and arms that add one trick to the recipe without tricks.
 *
 * A trick may have companions (`ablate:` in the configuration): settings that were chosen for the trick and that change
 * when it is removed. A companion setting that is an option of a trick is applied only if that trick is on. An arm
 * without "+companions" changes only the trick; an arm with it changes trick and companions:
 *
 *     arm                        baseline  tricks       companion settings applied
 *     full                                 all          none
 *     without-T                  full      all but T    none
 *     without-T+companions       full      all but T    T's
 *     plain                                none         all
 *     with-T                     plain     T            all
 *     with-T+companions          plain     T            all but T's */
#include "config/values.h"
#include "experiment/draft.h"

#include <string.h>

typedef struct ablation {
    d9_context *context;
    d9_arena *arena;
    const d9_draft *base;
    d9_config *full; /* the configuration of `base` with all its tricks */
    d9_experiment *experiment;
} ablation;

/* ---- edits ---- */

/* Index of the trick that `key`, written without "tricks." as in "celu.alpha", is an option of; -1: none. */
static int trick_of_key(const char *key) {
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        const size_t length = strlen(d9_trick_at(i)->name);
        if (strncmp(key, d9_trick_at(i)->name, length) == 0 && key[length] == '.') return i;
    }
    return -1;
}

/* Adds the companion settings of `trick`, except those that are options of a trick that is off. The key celu.alpha
 * means tricks.celu.alpha. */
static d9_status add_companions(const ablation *self, int trick, const bool on[D9_TRICK_COUNT],
                                d9_config_edits *edits) {
    d9_status status = D9_OK;
    char *key;
    const d9_tree *map = d9_tree_find(self->full->ablate, d9_trick_at(trick)->name);
    for (const d9_tree *node = map ? map->first : NULL; node; node = node->next) {
        const char *bare = strncmp(node->key, "tricks.", 7) == 0 ? node->key + 7 : node->key;
        const int other = trick_of_key(bare);
        if (other >= 0 && !on[other]) continue;
        D9_TRY(d9_arena_format(self->context, self->arena, &key, other >= 0 ? "tricks.%s" : "%s",
                               other >= 0 ? bare : node->key));
        D9_TRY(d9_draft_set(self->context, self->arena, edits, key, node, NULL));
    }
done:
    return status;
}

typedef struct arm_plan {
    const char *name, *label, *baseline;
    int trick; /* -1: none */
    bool companions;
    bool on[D9_TRICK_COUNT];      /* tricks that are on */
    bool applied[D9_TRICK_COUNT]; /* tricks whose companion settings are applied */
} arm_plan;

static d9_status add_arm(ablation *self, const arm_plan *plan) {
    d9_status status = D9_OK;
    d9_config_edits own = {0};
    d9_draft draft = *self->base;
    draft.name = plan->name;
    draft.label = plan->label;
    draft.baseline = plan->baseline;
    draft.trick = plan->trick >= 0 ? d9_trick_at(plan->trick)->name : NULL;
    draft.companions = plan->companions;
    draft.edits = (d9_config_edits){0};
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (self->full->trick_on[i] && !plan->on[i])
            D9_TRY(d9_config_edits_add(self->context, self->arena, &own,
                                       (d9_config_edit){.kind = D9_EDIT_WITHOUT, .text = d9_trick_at(i)->name}));
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (plan->applied[i]) D9_TRY(add_companions(self, i, plan->on, &own));
    D9_TRY(d9_config_edits_append(self->context, self->arena, &draft.edits, &self->base->edits));
    D9_TRY(d9_config_edits_append(self->context, self->arena, &draft.edits, &own));
    D9_TRY(
        d9_draft_resolve(self->context, self->arena, &draft, &self->experiment->arms[self->experiment->arm_count++]));
done:
    return status;
}

/* ---- arms ---- */

typedef enum arm_kind { LEAVE_OUT, ADD_IN } arm_kind;

static d9_status add_trick_arm(ablation *self, arm_kind kind, int trick, bool companions) {
    d9_status status;
    char *name, *label;
    const char *verb = kind == LEAVE_OUT ? "without" : "with", *word = d9_trick_at(trick)->name;
    arm_plan plan = {.baseline = kind == LEAVE_OUT ? "full" : "plain", .trick = trick, .companions = companions};
    memcpy(kind == LEAVE_OUT ? plan.on : plan.applied, self->full->trick_on, sizeof plan.on);
    plan.on[trick] = kind == ADD_IN;
    plan.applied[trick] = companions == (kind == LEAVE_OUT);
    D9_TRY(d9_arena_format(self->context, self->arena, &name, "%s-%s%s", verb, word, companions ? "+companions" : ""));
    D9_TRY(d9_arena_format(self->context, self->arena, &label, "%s %s%s", verb, word,
                           companions ? " and its companions" : ""));
    plan.name = name;
    plan.label = label;
    D9_TRY(add_arm(self, &plan));
done:
    return status;
}

static d9_status add_full_and_plain(ablation *self) {
    d9_status status;
    arm_plan full = {.name = "full", .label = "all tricks", .trick = -1};
    arm_plan plain = {.name = "plain", .label = "no tricks", .trick = -1};
    memcpy(full.on, self->full->trick_on, sizeof full.on);
    memcpy(plain.applied, self->full->trick_on, sizeof plain.applied);
    D9_TRY(add_arm(self, &full));
    D9_TRY(add_arm(self, &plain));
done:
    return status;
}

static d9_status add_trick_arms(ablation *self, arm_kind kind, const bool chosen[D9_TRICK_COUNT]) {
    d9_status status = D9_OK;
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        if (!chosen[i]) continue;
        D9_TRY(add_trick_arm(self, kind, i, false));
        if (d9_tree_find(self->full->ablate, d9_trick_at(i)->name)) D9_TRY(add_trick_arm(self, kind, i, true));
    }
done:
    return status;
}

/* ---- selection of tricks, and all arms ---- */

static d9_status reject_trick(const ablation *self, const char *word) {
    const char *names[D9_TRICK_COUNT];
    int count = 0;
    d9_text text;
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (self->full->trick_on[i]) names[count++] = d9_trick_at(i)->name;
    d9_text_init(self->context, &text);
    d9_suggest(&text, "on:", word, names, count);
    d9_status status = d9_text_status(&text);
    if (status == D9_OK)
        status = d9_fail(self->context, D9_USAGE, "%s: no enabled trick is called %s; %s", self->base->config, word,
                         d9_text_get(&text));
    d9_text_free(&text);
    return status;
}

static d9_status choose_tricks(const ablation *self, const char *const *only, int count, bool chosen[D9_TRICK_COUNT]) {
    int on = 0;
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        on += self->full->trick_on[i];
        chosen[i] = !only && self->full->trick_on[i];
    }
    for (int w = 0; only && w < count; w++) {
        int index = d9_trick_index(only[w]);
        if (index < 0 || !self->full->trick_on[index]) return reject_trick(self, only[w]);
        chosen[index] = true;
    }
    if (on == 0) return d9_fail(self->context, D9_USAGE, "%s: has no enabled trick to ablate", self->base->config);
    return D9_OK;
}

d9_status d9_ablation_make_arms(d9_context *context, const d9_draft *base, const char *const *only, int only_count,
                                d9_experiment *experiment) {
    d9_status status;
    enum { ARMS_MAX = 2 + 4 * D9_TRICK_COUNT };
    ablation self = {.context = context, .arena = &experiment->arena, .base = base, .experiment = experiment};
    d9_draft whole = *base;
    d9_arm full = {0};
    bool chosen[D9_TRICK_COUNT];
    whole.name = "full";
    D9_TRY(d9_draft_resolve(context, self.arena, &whole, &full));
    self.full = full.config;
    D9_TRY(choose_tricks(&self, only, only_count, chosen));
    D9_TRY(D9_ARENA_ALLOCATE(context, self.arena, ARMS_MAX, &experiment->arms));
    experiment->kind = D9_EXPERIMENT_ABLATION;
    D9_TRY(add_full_and_plain(&self));
    D9_TRY(add_trick_arms(&self, LEAVE_OUT, chosen));
    D9_TRY(add_trick_arms(&self, ADD_IN, chosen));
done:
    d9_config_free(context, full.config);
    return status;
}
