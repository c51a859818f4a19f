/* What each trick is worth: the arms that leave one out and the arms that add one in.
 *
 * A trick may have companions (`ablate:` in the configuration): settings that were chosen for it and change when it
 * leaves. Without all tricks all companions have left. The bare arm moves the trick alone, the other one
 * ("+companions") moves both:
 *
 *     arm                        baseline  tricks       companions that have left
 *     full                                 all          none
 *     without-T                  full      all but T    none
 *     without-T+companions       full      all but T    T's
 *     plain                                none         all
 *     with-T                     plain     T            all
 *     with-T+companions          plain     T            all but T's */
#include "experiment/draft.h"

#include <stdio.h>
#include <string.h>

typedef struct ablation {
    d9_context *context;
    d9_arena *arena;
    const d9_draft *base;
    d9_config *full; /* effective */
    d9_experiment *experiment;
} ablation;

/* ---- edits ---- */

/* `celu.alpha` means tricks.celu.alpha. The trick it speaks of, or -1. */
static int trick_of_key(const char *key, const char **option) {
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        const char *name = d9_trick_at(i)->name, *at = strncmp(key, "tricks.", 7) == 0 ? key + 7 : key;
        size_t length = strlen(name);
        if (strncmp(at, name, length) != 0 || at[length] != '.') continue;
        *option = at + length + 1;
        return i;
    }
    return -1;
}

/* The edits that come with leaving `trick` out, without those of tricks that are off. */
static d9_status add_companions(const ablation *self, int trick, const bool on[D9_TRICK_COUNT], d9_edit_list *edits) {
    d9_status status = D9_OK;
    d9_text text;
    char *copy;
    const char *option;
    d9_text_init(self->context, &text);
    const d9_tree *map = d9_tree_find(self->full->ablate, d9_trick_at(trick)->name);
    for (const d9_tree *node = map ? map->first : NULL; node; node = node->next) {
        int other = trick_of_key(node->key, &option);
        if (other >= 0 && !on[other]) continue;
        if (other >= 0)
            d9_text_add(&text, "tricks.%s.%s=", d9_trick_at(other)->name, option);
        else
            d9_text_add(&text, "%s=", node->key);
        d9_tree_write(node, &text);
        D9_TRY(d9_text_status(&text));
        D9_TRY(d9_arena_copy(self->context, self->arena, d9_text_get(&text), &copy));
        D9_TRY(d9_edit_add(self->context, self->arena, edits, D9_EDIT_SET, copy, NULL));
        d9_text_free(&text);
    }
done:
    d9_text_free(&text);
    return status;
}

static bool has_companions(const ablation *self, int trick) {
    return self->full->ablate && d9_tree_find(self->full->ablate, d9_trick_at(trick)->name);
}

typedef struct arm_plan {
    const char *name, *label, *baseline;
    int trick; /* -1: none */
    bool companions;
    bool on[D9_TRICK_COUNT];   /* tricks that stay */
    bool left[D9_TRICK_COUNT]; /* tricks whose companions have left */
} arm_plan;

static d9_status add_arm(ablation *self, const arm_plan *plan) {
    d9_status status = D9_OK;
    d9_draft draft = *self->base;
    draft.name = plan->name;
    draft.label = plan->label;
    draft.baseline = plan->baseline;
    draft.trick = plan->trick >= 0 ? d9_trick_at(plan->trick)->name : NULL;
    draft.companions = plan->companions;
    draft.edits = (d9_edit_list){0};
    D9_TRY(d9_edit_append(self->context, self->arena, &draft.edits, &self->base->edits));
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (self->full->trick_on[i] && !plan->on[i])
            D9_TRY(d9_edit_add(self->context, self->arena, &draft.edits, D9_EDIT_WITHOUT, d9_trick_at(i)->name, NULL));
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (plan->left[i]) D9_TRY(add_companions(self, i, plan->on, &draft.edits));
    D9_TRY(d9_draft_settle(self->context, self->arena, &draft, &self->experiment->arms[self->experiment->arm_count++]));
done:
    return status;
}

/* ---- arms ---- */

static d9_status add_moved(ablation *self, arm_plan *plan, const char *verb) {
    d9_status status;
    char *name, *label;
    const char *trick = d9_trick_at(plan->trick)->name;
    D9_TRY(d9_arena_format(self->context, self->arena, &name, "%s-%s%s", verb, trick,
                           plan->companions ? "+companions" : ""));
    D9_TRY(d9_arena_format(self->context, self->arena, &label, "%s %s%s", verb, trick,
                           plan->companions ? " and its companions" : ""));
    plan->name = name;
    plan->label = label;
    D9_TRY(add_arm(self, plan));
done:
    return status;
}

static d9_status leave_out(ablation *self, int trick, bool companions) {
    arm_plan plan = {.baseline = "full", .trick = trick, .companions = companions};
    memcpy(plan.on, self->full->trick_on, sizeof plan.on);
    plan.on[trick] = false;
    plan.left[trick] = companions;
    return add_moved(self, &plan, "without");
}

static d9_status add_in(ablation *self, int trick, bool companions) {
    arm_plan plan = {.baseline = "plain", .trick = trick, .companions = companions};
    memcpy(plan.left, self->full->trick_on, sizeof plan.left);
    plan.on[trick] = true;
    if (companions) plan.left[trick] = false;
    return add_moved(self, &plan, "with");
}

static d9_status add_ends(ablation *self) {
    d9_status status;
    arm_plan full = {.name = "full", .label = "all tricks", .trick = -1};
    arm_plan plain = {.name = "plain", .label = "no tricks", .trick = -1};
    memcpy(full.on, self->full->trick_on, sizeof full.on);
    memcpy(plain.left, self->full->trick_on, sizeof plain.left);
    D9_TRY(add_arm(self, &full));
    D9_TRY(add_arm(self, &plain));
done:
    return status;
}

static d9_status add_moves(ablation *self, const bool chosen[D9_TRICK_COUNT],
                           d9_status (*move)(ablation *, int, bool)) {
    d9_status status = D9_OK;
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        if (!chosen[i]) continue;
        D9_TRY(move(self, i, false));
        if (has_companions(self, i)) D9_TRY(move(self, i, true));
    }
done:
    return status;
}

/* ---- the choice of tricks ---- */

static d9_status refuse_trick(const ablation *self, const char *word) {
    const char *names[D9_TRICK_COUNT];
    int count = 0;
    d9_text text;
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (self->full->trick_on[i]) names[count++] = d9_trick_at(i)->name;
    d9_text_init(self->context, &text);
    d9_text_add(&text, "on:");
    for (int i = 0; i < count; i++) d9_text_add(&text, "%s%s", i ? ", " : " ", names[i]);
    const char *nearest = d9_text_nearest(word, names, count);
    if (nearest) d9_text_add(&text, "; did you mean %s?", nearest);
    d9_status status = d9_text_status(&text);
    if (status == D9_OK)
        status = d9_fail(self->context, D9_USAGE, "%s: no trick called %s is on here; %s", self->base->config, word,
                         d9_text_get(&text));
    d9_text_free(&text);
    return status;
}

static d9_status choose(const ablation *self, const char *const *only, int count, bool chosen[D9_TRICK_COUNT]) {
    int on = 0;
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        on += self->full->trick_on[i];
        chosen[i] = !only && self->full->trick_on[i];
    }
    for (int w = 0; only && w < count; w++) {
        int index = d9_trick_index(only[w]);
        if (index < 0 || !self->full->trick_on[index]) return refuse_trick(self, only[w]);
        chosen[index] = true;
    }
    if (on == 0) return d9_fail(self->context, D9_USAGE, "%s: has no trick on: nothing to ablate", self->base->config);
    return D9_OK;
}

d9_status d9_ablation_arms(d9_context *context, const d9_draft *base, const char *const *only, int only_count,
                           d9_experiment *experiment) {
    d9_status status;
    enum { ARMS_MAX = 2 + 4 * D9_TRICK_COUNT };
    ablation self = {.context = context, .arena = &experiment->arena, .base = base, .experiment = experiment};
    d9_draft whole = *base;
    d9_arm full = {0};
    bool chosen[D9_TRICK_COUNT];
    whole.name = "full";
    D9_TRY(d9_draft_settle(context, self.arena, &whole, &full));
    self.full = full.config;
    D9_TRY(choose(&self, only, only_count, chosen));
    D9_TRY(D9_ARENA_ALLOCATE(context, self.arena, ARMS_MAX, &experiment->arms));
    experiment->kind = D9_EXPERIMENT_ABLATION;
    D9_TRY(add_ends(&self));
    D9_TRY(add_moves(&self, chosen, leave_out));
    D9_TRY(add_moves(&self, chosen, add_in));
done:
    d9_config_free(context, full.config);
    return status;
}
