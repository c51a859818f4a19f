/* Values by option row: one reader and one writer per type, beside each other. */
#include "config/values.h"
#include "step/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 64 };

/* ---- suggestions ---- */

void d9_suggest(d9_text *text, const char *label, const char *word, const char *const *words, int count) {
    d9_text_add(text, "%s", label);
    for (int i = 0; i < count; i++) d9_text_add(text, "%s%s", i ? ", " : " ", words[i]);
    const char *nearest = d9_text_nearest(word, words, count);
    if (nearest) d9_text_add(text, "; did you mean %s?", nearest);
}

static d9_status fail_with(d9_context *context, const d9_tree *node, d9_text *text) {
    d9_status status = d9_text_status(text);
    if (status == D9_OK) status = d9_tree_fail(context, node, "%s", d9_text_get(text));
    d9_text_free(text);
    return status;
}

/* ---- numbers ---- */

static bool is_bounded(const d9_option *option) { return option->minimum != 0 || option->maximum != 0; }

static d9_status check_bounds(d9_context *context, const d9_option *option, const d9_tree *node, double value) {
    if (!is_bounded(option) || (value >= option->minimum && value <= option->maximum)) return D9_OK;
    if (option->maximum >= 1e15 && value < option->minimum)
        return d9_tree_fail(context, node, "%s is out of range; must be at least %.10g", node->text, option->minimum);
    return d9_tree_fail(context, node, "%s is out of range; must lie between %.10g and %.10g", node->text,
                        option->minimum, option->maximum);
}

static const char *describe(const d9_tree *node) {
    if (node->kind == D9_TREE_MAP) return "a map";
    if (node->kind == D9_TREE_LIST) return "a list";
    return *node->text ? node->text : node->quoted ? "an empty text" : "nothing";
}

d9_status d9_value_wrong_type(d9_context *context, const d9_tree *node, const char *needed) {
    bool text = node->kind == D9_TREE_SCALAR && node->quoted && *node->text;
    return d9_tree_fail(context, node, "needs %s, not %s%s", needed, text ? "the text " : "", describe(node));
}

static d9_status read_real(d9_context *context, const d9_option *option, const d9_tree *node, double *value) {
    if (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_real(node->text, value))
        return d9_value_wrong_type(context, node, "a finite number");
    return check_bounds(context, option, node, *value);
}

static d9_status read_integer(d9_context *context, const d9_option *option, const d9_tree *node, int64_t *value) {
    if (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_integer(node->text, value))
        return d9_value_wrong_type(context, node, "a whole number");
    return check_bounds(context, option, node, (double)*value);
}

/* The shortest decimal that reads back to the same bits. */
static void write_real(d9_text *text, double value) {
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        double back;
        if (d9_text_to_real(digits, &back) && back == value) break;
    }
    d9_text_add(text, "%s", digits);
}

/* ---- words ---- */

/* The "a|b|c" of an option as a list; an empty last word is none. */
static int split_choices(const char *choices, char *storage, size_t size, const char **words) {
    int count = 0;
    snprintf(storage, size, "%s", choices);
    for (char *at = storage; at && *at && count < WORDS_MAX;) {
        words[count++] = at;
        at = strchr(at, '|');
        if (at) *at++ = 0;
    }
    return count;
}

/* The index of the node's word among the choices. */
static d9_status read_choice(d9_context *context, const d9_option *option, const d9_tree *node, int *index) {
    char storage[512];
    const char *words[WORDS_MAX];
    int count = split_choices(option->choices, storage, sizeof storage, words);
    for (*index = 0; node->kind == D9_TREE_SCALAR && *index < count; ++*index)
        if (strcmp(node->text, words[*index]) == 0) return D9_OK;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "%s is not known here; ", describe(node));
    d9_suggest(&text, "one of:", node->kind == D9_TREE_SCALAR ? node->text : "", words, count);
    return fail_with(context, node, &text);
}

static d9_status read_bool(d9_context *context, const d9_tree *node, bool *value) {
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes"};
    for (int i = 0; node->kind == D9_TREE_SCALAR && !node->quoted && i < 6; i++)
        if (strcmp(node->text, words[i]) == 0) {
            *value = i % 2 == 1;
            return D9_OK;
        }
    return d9_value_wrong_type(context, node, "on or off");
}

/* An optional text says "" for none. */
static d9_status read_text(d9_context *context, d9_arena *arena, const d9_option *option, const d9_tree *node,
                           const char **value) {
    int index;
    char *copy;
    if (node->kind != D9_TREE_SCALAR || (!*node->text && !node->quoted))
        return d9_value_wrong_type(context, node, "a text");
    d9_status status = option->choices ? read_choice(context, option, node, &index) : D9_OK;
    if (status == D9_OK) status = d9_arena_copy(context, arena, node->text, &copy);
    if (status == D9_OK) *value = *copy ? copy : NULL;
    return status;
}

static bool is_plain(const char *text) {
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-") == strlen(text) &&
           strchr("+-", *text) == NULL;
}

static void write_text(d9_text *text, const char *value) {
    if (is_plain(value)) {
        d9_text_add(text, "%s", value);
        return;
    }
    d9_text_add(text, "\"");
    for (const unsigned char *at = (const unsigned char *)value; *at; at++) {
        if (*at == '"' || *at == '\\')
            d9_text_add(text, "\\%c", *at);
        else if (*at < ' ' || *at == 127)
            d9_text_add(text, "\\x%02x", *at);
        else
            d9_text_add(text, "%c", *at);
    }
    d9_text_add(text, "\"");
}

/* ---- lists ---- */

static d9_status check_list(d9_context *context, const d9_tree *node, const char *needed) {
    if (node->kind != D9_TREE_LIST || node->count == 0) return d9_value_wrong_type(context, node, needed);
    if (node->count > D9_LIST_MAX)
        return d9_tree_fail(context, node, "has %d elements; at most %d", node->count, D9_LIST_MAX);
    return D9_OK;
}

static d9_status read_integers(d9_context *context, const d9_option *option, const d9_tree *node, d9_int_list *list) {
    d9_status status = D9_OK;
    D9_TRY(check_list(context, node, "a list of whole numbers, like [64, 128]"));
    list->count = 0;
    for (const d9_tree *child = node->first; child; child = child->next)
        D9_TRY(read_integer(context, option, child, &list->values[list->count++]));
done:
    return status;
}

static d9_status read_reals(d9_context *context, const d9_option *option, const d9_tree *node, double *values,
                            int *count) {
    d9_status status = D9_OK;
    D9_TRY(check_list(context, node, "a list of numbers, like [0, 0.5]"));
    *count = 0;
    for (const d9_tree *child = node->first; child; child = child->next)
        D9_TRY(read_real(context, option, child, &values[(*count)++]));
done:
    return status;
}

static void write_reals(d9_text *text, const double *values, int count) {
    d9_text_add(text, "[");
    for (int i = 0; i < count; i++) {
        if (i) d9_text_add(text, ", ");
        write_real(text, values[i]);
    }
    d9_text_add(text, "]");
}

/* ---- schedules ---- */

/* NUMBER | NUMBER% | end | end-NUMBER */
static bool parse_knot(const char *word, d9_knot *knot) {
    char number[64];
    size_t length = strlen(word);
    if (length == 0 || length >= sizeof number) return false;
    *knot = (d9_knot){0, D9_KNOT_BEFORE_END};
    if (strcmp(word, "end") == 0) return true;
    bool ends = strncmp(word, "end-", 4) == 0, percent = word[length - 1] == '%';
    snprintf(number, sizeof number, "%s", ends ? word + 4 : word);
    if (percent) number[strlen(number) - 1] = 0;
    if (!ends) knot->unit = percent ? D9_KNOT_PERCENT : D9_KNOT_EPOCHS;
    if ((ends && percent) || !d9_text_to_real(number, &knot->value)) return false;
    return knot->value >= 0 && !(percent && knot->value > 100);
}

/* Like is compared with like: whether end-2 lies before 20% depends on the epochs, and is clamped there. */
static bool goes_back(const d9_knot *before, const d9_knot *knot) {
    if (before->unit != knot->unit) return false;
    return knot->unit == D9_KNOT_BEFORE_END ? knot->value > before->value : knot->value < before->value;
}

static d9_status read_knots(d9_context *context, const d9_tree *node, d9_schedule *schedule) {
    d9_status status = D9_OK;
    D9_TRY(check_list(context, node, "a list of knots, like [0, 20%, end-2]"));
    schedule->count = 0;
    for (const d9_tree *child = node->first; child; child = child->next) {
        d9_knot *knot = &schedule->knots[schedule->count];
        if (child->kind != D9_TREE_SCALAR || child->quoted || !parse_knot(child->text, knot))
            D9_TRY(d9_value_wrong_type(context, child, "a knot: a number of epochs, 0% to 100%, end, or end-N"));
        if (schedule->count > 0 && goes_back(knot - 1, knot))
            D9_TRY(d9_tree_fail(context, child, "%s lies before the knot in front of it", child->text));
        schedule->count++;
    }
done:
    return status;
}

static d9_status read_schedule(d9_context *context, const d9_option *option, const d9_tree *node,
                               d9_schedule *schedule) {
    static const char *const keys[] = {"knots", "values", NULL};
    d9_status status = D9_OK;
    d9_schedule read = {0};
    if (node->kind != D9_TREE_MAP)
        D9_TRY(d9_value_wrong_type(context, node, "a map like {knots: [0, 20%, end-2], values: [0, 1, 0.1]}"));
    D9_TRY(d9_values_bind(context, NULL, node, NULL, 0, keys));
    const d9_tree *knots = d9_tree_find(node, "knots"), *values = d9_tree_find(node, "values");
    if (!knots || !values) D9_TRY(d9_tree_fail(context, node, "%s must be given", knots ? "values" : "knots"));
    D9_TRY(read_knots(context, knots, &read));
    D9_TRY(read_reals(context, option, values, read.values, &read.value_count));
    if (read.count != read.value_count)
        D9_TRY(d9_tree_fail(context, node, "%d values for %d knots; there must be one for each", read.value_count,
                            read.count)); /* at the map: either list may be inherited */
    *schedule = read;
done:
    return status;
}

static void write_schedule(d9_text *text, const d9_schedule *schedule) {
    d9_text_add(text, "{knots: [");
    for (int i = 0; i < schedule->count; i++) {
        const d9_knot *knot = &schedule->knots[i];
        bool ends = knot->unit == D9_KNOT_BEFORE_END;
        d9_text_add(text, "%s%s", i ? ", " : "", ends ? "end" : "");
        if (ends && knot->value == 0) continue;
        if (ends) d9_text_add(text, "-");
        write_real(text, knot->value);
        if (knot->unit == D9_KNOT_PERCENT) d9_text_add(text, "%%");
    }
    d9_text_add(text, "], values: ");
    write_reals(text, schedule->values, schedule->value_count);
    d9_text_add(text, "}");
}

/* ---- any option ---- */

static d9_status read_node(d9_context *context, d9_arena *arena, const d9_option *option, const d9_tree *node,
                           void *field) {
    switch (option->type) {
    case D9_OPTION_NONE:
        break;
    case D9_OPTION_BOOL:
        return read_bool(context, node, field);
    case D9_OPTION_INT:
        return read_integer(context, option, node, field);
    case D9_OPTION_REAL:
        return read_real(context, option, node, field);
    case D9_OPTION_TEXT:
        return read_text(context, arena, option, node, field);
    case D9_OPTION_CHOICE:
        return read_choice(context, option, node, field);
    case D9_OPTION_INTS:
        return read_integers(context, option, node, field);
    case D9_OPTION_REALS: {
        d9_real_list *list = field;
        return read_reals(context, option, node, list->values, &list->count);
    }
    case D9_OPTION_SCHEDULE:
        return read_schedule(context, option, node, field);
    }
    return d9_tree_fail(context, node, "has no type");
}

/* The default "" of an optional value: a text that is NULL, a number that is NaN. */
static d9_status read_default(d9_context *context, d9_arena *arena, const d9_option *option, void *field) {
    static const d9_place place = {.source = "default"};
    const char *fallback = option->fallback;
    d9_tree *node;
    if (!*fallback && option->type == D9_OPTION_TEXT) *(const char **)field = NULL;
    if (!*fallback && option->type == D9_OPTION_REAL) *(double *)field = (double)NAN;
    if (!*fallback) return D9_OK;
    d9_status status = d9_tree_parse(context, arena, &place, fallback, strlen(fallback), &node);
    return status == D9_OK ? read_node(context, arena, option, node, field) : status;
}

d9_status d9_value_read(d9_context *context, d9_arena *arena, const d9_option *option, const d9_tree *node,
                        void *base) {
    void *field = (char *)base + option->offset;
    return node ? read_node(context, arena, option, node, field) : read_default(context, arena, option, field);
}

bool d9_value_write(const d9_option *option, const void *base, d9_text *text) {
    const void *field = (const char *)base + option->offset;
    char storage[512];
    const char *words[WORDS_MAX];
    switch (option->type) {
    case D9_OPTION_NONE:
        return false;
    case D9_OPTION_BOOL:
        d9_text_add(text, "%s", *(const bool *)field ? "on" : "off");
        break;
    case D9_OPTION_INT:
        d9_text_add(text, "%lld", (long long)*(const int64_t *)field);
        break;
    case D9_OPTION_REAL:
        if (isnan(*(const double *)field)) return false;
        write_real(text, *(const double *)field);
        break;
    case D9_OPTION_TEXT:
        if (!*(const char *const *)field) return false;
        write_text(text, *(const char *const *)field);
        break;
    case D9_OPTION_CHOICE: {
        int count = split_choices(option->choices, storage, sizeof storage, words), index = *(const int *)field;
        d9_text_add(text, "%s", index >= 0 && index < count ? words[index] : "?");
        break;
    }
    case D9_OPTION_INTS: {
        const d9_int_list *list = field;
        for (int i = 0; i < list->count; i++) d9_text_add(text, "%s%lld", i ? ", " : "[", (long long)list->values[i]);
        d9_text_add(text, "]");
        break;
    }
    case D9_OPTION_REALS:
        write_reals(text, ((const d9_real_list *)field)->values, ((const d9_real_list *)field)->count);
        break;
    case D9_OPTION_SCHEDULE:
        write_schedule(text, field);
        break;
    }
    return true;
}
