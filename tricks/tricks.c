/* The table of tricks, made from tricks.def, and functions that tricks share. */
#include "tricks/trick.h"

#include <string.h>

#define D9_TRICK(name) extern const d9_trick d9_trick_##name;
#include "tricks/tricks.def"
#undef D9_TRICK

static const d9_trick *const tricks[] = {
#define D9_TRICK(name) &d9_trick_##name,
#include "tricks/tricks.def"
#undef D9_TRICK
};

const d9_trick *d9_trick_at(int index) { return index >= 0 && index < D9_TRICK_COUNT ? tricks[index] : NULL; }

int d9_trick_index(const char *name) {
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (strcmp(tricks[i]->name, name) == 0) return i;
    return -1;
}

static bool lists_conflict(int a, int b) {
    for (int c = 0; c < D9_MAX_CONFLICTS && tricks[a]->conflicts[c]; c++)
        if (strcmp(tricks[a]->conflicts[c], tricks[b]->name) == 0) return true;
    return false;
}

bool d9_tricks_conflict(int a, int b) { return lists_conflict(a, b) || lists_conflict(b, a); }

const d9_measured *d9_measured_at(int index) {
    static const d9_measured rows[] = {
#define D9_MEASURED(trick, ...) {D9_TRICK_##trick, __VA_ARGS__},
#include "tricks/measured.def"
#undef D9_MEASURED
        {0}};
    const int count = (int)(sizeof rows / sizeof rows[0]) - 1;
    return index >= 0 && index < count ? &rows[index] : NULL;
}

d9_status d9_trick_reject(d9_context *context, const char *trick, const char *why) {
    return d9_fail(context, D9_USAGE, "tricks.%s finds nothing to edit: %s; --without %s leaves it out", trick, why,
                   trick);
}
