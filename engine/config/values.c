/* Reads and writes values by option row: a reader and a writer for each type. */
#include "config/values.h"
#include "step/program.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The arguments of a reader besides node and field. */
typedef struct reading {
    d9_context *context;
    d9_arena *arena; /* owns texts, knots and values of schedules, and parsed defaults */
    const d9_option *option;
} reading;
typedef d9_status reader(const reading *reading, const d9_tree *node, void *field);
typedef void writer(const void *field, d9_text *text);

/* ---- suggestions ---- */

void d9_suggest(d9_text *text, const char *label, const char *word, const char *const *words, int count) {
    d9_text_add(text, "%s", label);
    for (int i = 0; i < count; i++) d9_text_add(text, "%s%s", i ? ", " : " ", words[i]);
    const char *nearest = d9_text_nearest(word, words, count);
    if (nearest) d9_text_add(text, "; did you mean %s?", nearest);
}

/* ---- numbers ---- */

static d9_status check_bounds(const reading *reading, const d9_tree *node, double value) {
    const double least = reading->option->minimum, most = reading->option->maximum;
    if ((least == 0 && most == 0) || (value >= least && value <= most)) return D9_OK;
    if (most >= 1e15 && value < least)
        return d9_tree_fail(reading->context, node, "%s is out of range; must be at least %.10g", node->text, least);
    return d9_tree_fail(reading->context, node, "%s is out of range; must lie between %.10g and %.10g", node->text,
                        least, most);
}

static const char *describe_node(const d9_tree *node) {
    if (node->kind == D9_TREE_MAP) return "a map";
    if (node->kind == D9_TREE_LIST) return node->count ? "a list" : "an empty list";
    return *node->text ? node->text : node->quoted ? "an empty text" : "nothing";
}

/* Fails at the node with "needs NEEDED, not FOUND"; FOUND describes the node: "a map", "a list", a scalar's text. */
static d9_status reject_type(d9_context *context, const d9_tree *node, const char *needed) {
    bool text = node->kind == D9_TREE_SCALAR && node->quoted && *node->text;
    return d9_tree_fail(context, node, "needs %s, not %s%s", needed, text ? "the text " : "", describe_node(node));
}

static d9_status read_real(const reading *reading, const d9_tree *node, void *field) {
    double *value = field;
    if (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_real(node->text, value))
        return reject_type(reading->context, node, "a finite number");
    return check_bounds(reading, node, *value);
}

static d9_status read_integer(const reading *reading, const d9_tree *node, void *field) {
    double value; /* also holds a number of more than 64 bits, so that the message can name its bounds */
    if (node->kind != D9_TREE_SCALAR || node->quoted || node->text[strspn(node->text, "0123456789+-")] ||
        !d9_text_to_real(node->text, &value))
        return reject_type(reading->context, node, "a whole number");
    const d9_status status = check_bounds(reading, node, value);
    if (status == D9_OK && !d9_text_to_integer(node->text, field))
        return reject_type(reading->context, node, "a whole number of 64 bits");
    const double most = reading->option->maximum;
    if (status == D9_OK && most > 0 && most < 0x1p63 && *(const int64_t *)field > (int64_t)most)
        return check_bounds(reading, node, (double)INFINITY); /* `value` was rounded to the maximum */
    return status;
}

static void write_integer(const void *field, d9_text *text) {
    d9_text_add(text, "%lld", (long long)*(const int64_t *)field);
}

static void write_real(const void *field, d9_text *text) {
    char digits[D9_REAL_BYTES];
    d9_text_of_real(*(const double *)field, digits);
    d9_text_add(text, "%s", digits);
}

/* ---- words ---- */

/* True if the text of `length` bytes contains this word, ignoring case. */
static bool has_word(const char *text, int length, const char *word) {
    const int size = (int)strlen(word);
    for (int i = 0; i + size <= length; i++)
        if ((i == 0 || !isalnum((unsigned char)text[i - 1])) && strncasecmp(text + i, word, (size_t)size) == 0 &&
            (i + size == length || !isalnum((unsigned char)text[i + size])))
            return true;
    return false;
}

/* The choice whose explanation in the help contains this word ("cuda" for "gpu"); the word itself if none or several
 * do. */
static const char *find_choice_by_help(const d9_option *option, const d9_choices *list, const char *word) {
    const char *meant = NULL, *line = strchr(option->doc, '\n');
    int count = 0;
    for (int i = 0; line && i < list->count; i++, line = strchr(line + 1, '\n'))
        if (*word && has_word(line, 1 + (int)strcspn(line + 1, "\n"), word)) meant = list->words[i], count++;
    return count == 1 ? meant : word;
}

/* Reads a word as its index among the choices. */
static d9_status read_choice(const reading *reading, const d9_tree *node, void *field) {
    d9_choices list;
    int *index = field;
    d9_choices_split(reading->option->choices, &list);
    for (*index = 0; node->kind == D9_TREE_SCALAR && *index < list.count; ++*index)
        if (strcmp(node->text, list.words[*index]) == 0) return D9_OK;
    d9_text text;
    d9_text_init(reading->context, &text);
    d9_text_add(&text, "%s is not known here; ", describe_node(node));
    d9_suggest(&text,
               "one of:", node->kind == D9_TREE_SCALAR ? find_choice_by_help(reading->option, &list, node->text) : "",
               list.words, list.count);
    return d9_tree_fail_text(reading->context, node, &node->place, &text);
}

static void write_choice(const d9_option *option, int index, d9_text *text) {
    d9_choices list;
    d9_choices_split(option->choices, &list);
    d9_text_add(text, "%s", index >= 0 && index < list.count ? list.words[index] : "?");
}

static d9_status read_bool(const reading *reading, const d9_tree *node, void *field) {
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes"};
    for (int i = 0; node->kind == D9_TREE_SCALAR && !node->quoted && i < 6; i++)
        if (strcmp(node->text, words[i]) == 0) {
            *(bool *)field = i % 2 == 1;
            return D9_OK;
        }
    return reject_type(reading->context, node, "on or off");
}

static void write_bool(const void *field, d9_text *text) { d9_text_add(text, *(const bool *)field ? "on" : "off"); }

/* Reads a text. "" becomes NULL; it is rejected if the option has a default or must be given. */
static d9_status read_text(const reading *reading, const d9_tree *node, void *field) {
    d9_status status = D9_OK;
    const char *fallback = reading->option->fallback;
    int index;
    char *copy, message[4096];
    if (node->kind != D9_TREE_SCALAR || (!*node->text && !node->quoted))
        D9_TRY(reject_type(reading->context, node, "a text"));
    if (!d9_text_is_unicode(node->text))
        D9_TRY(d9_tree_fail(reading->context, node, "is not UTF-8, which a configuration must be"));
    if (d9_text_begins_at_home(node->text, message, sizeof message))
        D9_TRY(d9_tree_fail(reading->context, node, "%s", message));
    if (reading->option->choices) D9_TRY(read_choice(reading, node, &index));
    if (!*node->text && !(fallback && !*fallback)) D9_TRY(d9_tree_fail(reading->context, node, "must not be empty"));
    D9_TRY(d9_arena_copy(reading->context, reading->arena, node->text, &copy));
    *(const char **)field = *copy ? copy : NULL;
done:
    return status;
}

/* True for "0xFF", "0b101" and "0o17". "A100" and "0beef" are no numbers: quoting them would change config_hash. */
static bool is_number_with_base(const char *value) {
    if (value[0] != '0' || !value[1] || !value[2]) return false;
    const char *digits = strchr("xX", value[1])   ? "0123456789abcdefABCDEF_"
                         : strchr("bB", value[1]) ? "01_"
                         : strchr("oO", value[1]) ? "01234567_"
                                                  : "";
    return !value[2 + strspn(value + 2, digits)];
}

/* True for a text that readers of YAML may take for a number, a date, a truth value or null unless it is quoted. */
static bool reads_as_another_type(const char *value) {
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "null", ".inf", ".nan"};
    bool found = strpbrk(value, "0123456789") && !value[strspn(value, "0123456789+-._:eExX")];
    found |= is_number_with_base(value);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) found |= strcasecmp(value, words[i]) == 0;
    return found;
}

static void write_text(const void *field, d9_text *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const char *value = *(const char *const *)field;
    if (value[strspn(value, plain)] || strchr("+-", *value) || reads_as_another_type(value))
        d9_tree_quote(value, text);
    else
        d9_text_add(text, "%s", value);
}

/* ---- lists ---- */

/* Reads each element of a list by `read` into an array at `first` with `most` elements of `size` bytes. */
static d9_status read_list(const reading *reading, const d9_tree *node, const char *needed, reader *read, void *first,
                           size_t size, int most, int *count) {
    d9_status status = D9_OK;
    if (node->kind != D9_TREE_LIST || node->count == 0) D9_TRY(reject_type(reading->context, node, needed));
    if (node->count > most)
        D9_TRY(d9_tree_fail(reading->context, node, "has %d elements; at most %d", node->count, most));
    *count = 0;
    for (const d9_tree *child = node->first; child; child = child->next)
        D9_TRY(read(reading, child, (char *)first + (size_t)(*count)++ * size));
done:
    return status;
}

static d9_status read_integers(const reading *reading, const d9_tree *node, void *field) {
    d9_int_list *list = field;
    return read_list(reading, node, "a list of whole numbers, like [64, 128]", read_integer, list->values,
                     sizeof *list->values, D9_LIST_MAX, &list->count);
}

static d9_status read_reals(const reading *reading, const d9_tree *node, void *field) {
    d9_real_list *list = field;
    return read_list(reading, node, "a list of numbers, like [0, 0.5]", read_real, list->values, sizeof *list->values,
                     D9_LIST_MAX, &list->count);
}

static void write_list(const void *first, size_t size, int count, writer *write, d9_text *text) {
    d9_text_add(text, "[");
    for (int i = 0; i < count; i++) {
        if (i) d9_text_add(text, ", ");
        write((const char *)first + (size_t)i * size, text);
    }
    d9_text_add(text, "]");
}

static void write_integers(const void *field, d9_text *text) {
    const d9_int_list *list = field;
    write_list(list->values, sizeof *list->values, list->count, write_integer, text);
}

static void write_reals(const void *field, d9_text *text) {
    const d9_real_list *list = field;
    write_list(list->values, sizeof *list->values, list->count, write_real, text);
}

/* ---- schedules ---- */

/* Parses NUMBER, NUMBER%, end or end-NUMBER. */
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

/* True if `knot` lies before its predecessor `before`. Only knots of equal units are compared: the order of end-2 and
 * 20% depends on the number of epochs, and d9_schedule_at moves such knots. */
static bool goes_back(const d9_knot *before, const d9_knot *knot) {
    if (before->unit != knot->unit) return false;
    return knot->unit == D9_KNOT_BEFORE_END ? knot->value > before->value : knot->value < before->value;
}

static d9_status read_knot(const reading *reading, const d9_tree *node, void *field) {
    const d9_knot *knot = field;
    if (node->kind != D9_TREE_SCALAR || node->quoted || !parse_knot(node->text, field))
        return reject_type(reading->context, node, "a knot: a number of epochs, 0% to 100%, end, or end-N");
    if (node != node->parent->first && goes_back(knot - 1, knot))
        return d9_tree_fail(reading->context, node, "%s lies before the knot in front of it", node->text);
    return D9_OK;
}

static void write_knot(const void *field, d9_text *text) {
    const d9_knot *knot = field;
    const bool ends = knot->unit == D9_KNOT_BEFORE_END;
    if (ends) d9_text_add(text, knot->value == 0 ? "end" : "end-");
    if (!ends || knot->value != 0) write_real(&knot->value, text);
    if (knot->unit == D9_KNOT_PERCENT) d9_text_add(text, "%%");
}

/* Scales the values of a schedule to another largest value, rounded to 15 significant digits, so that a tenth of 0.2 is
 * 0.02. */
static d9_status scale_to_peak(const reading *reading, const d9_tree *node, const d9_schedule *schedule,
                               double *values) {
    d9_status status = D9_OK;
    double peak;
    char digits[32];
    D9_TRY(read_real(reading, node, &peak));
    const double largest = d9_schedule_peak(schedule);
    if (peak == largest) goto done;
    if (largest == 0)
        D9_TRY(d9_tree_fail(reading->context, node, "every value is 0, so none can become %s", node->text));
    for (int i = 0; i < schedule->count; i++) {
        snprintf(digits, sizeof digits, "%.15g", values[i] / largest * peak);
        values[i] = values[i] == largest ? peak : strtod(digits, NULL);
    }
done:
    return status;
}

const char *const d9_schedule_keys[] = {"shape", "knots", "values", "peak", "warmup", "start", "end", "at", NULL};
static const char *const knot_keys[] = {"knots", "values"}, *const cosine_keys[] = {"warmup", "start", "end"};

void d9_schedule_drop_keys(const d9_tree *over, d9_tree *under) {
    const d9_tree *shape = d9_tree_find(over, "shape");
    const bool cosine = shape && shape->kind == D9_TREE_SCALAR && strcmp(shape->text, "cosine") == 0,
               values = d9_tree_find(over, "values") != NULL, listed = values || d9_tree_find(over, "knots");
    for (int i = 0; cosine && i < 2; i++) d9_tree_remove(under, knot_keys[i]);
    for (int i = 0; !cosine && (shape || listed) && i < 3; i++) d9_tree_remove(under, cosine_keys[i]);
    if (!cosine && listed) d9_tree_remove(under, "shape");
    if (values) d9_tree_remove(under, "peak"); /* it belongs to the replaced values */
}

/* Sets *index to the index of a word among `choices`, "linear|cosine"; 0 if `node` is NULL. */
static d9_status read_word(const reading *reading, const d9_tree *node, const char *choices, int *index) {
    const d9_option option = {.choices = choices, .doc = ""};
    *index = 0;
    return node ? read_choice(&(struct reading){reading->context, reading->arena, &option}, node, index) : D9_OK;
}

/* Reads the start or end value of a cosine, which must not exceed its peak. `node` NULL: leaves *value unchanged. */
static d9_status read_cosine_value(const reading *reading, const d9_tree *node, double peak, double *value) {
    if (!node) return D9_OK;
    const d9_status status = read_real(reading, node, value);
    if (status != D9_OK || *value <= peak) return status;
    return d9_tree_fail(reading->context, node, "%s lies above the peak of the cosine, %.10g", node->text, peak);
}

/* Gives a schedule zeroed arrays for `count` knots and values, and returns them for writing. */
static d9_status allocate_points(const reading *reading, int count, d9_schedule *schedule, d9_knot **knots,
                                 double **values) {
    d9_status status;
    D9_TRY(D9_ARENA_ALLOCATE(reading->context, reading->arena, count, knots));
    D9_TRY(D9_ARENA_ALLOCATE(reading->context, reading->arena, count, values));
    schedule->count = count;
    schedule->knots = *knots;
    schedule->values = *values;
done:
    return status;
}

/* Reads the warm-up and the cosine: linear from `start` to `peak` at the knot `warmup`, half a cosine to `end`. */
static d9_status read_cosine(const reading *reading, const d9_tree *map, d9_schedule *schedule) {
    d9_status status = D9_OK;
    d9_knot *knots;
    double *values;
    const d9_tree *peak = d9_tree_find(map, "peak"), *warmup = d9_tree_find(map, "warmup");
    for (int i = 0; i < 2; i++)
        if (d9_tree_find(map, knot_keys[i]))
            D9_TRY(d9_tree_fail(reading->context, d9_tree_find(map, knot_keys[i]),
                                "a cosine has peak, warmup, start and end instead of knots and values"));
    if (!peak)
        D9_TRY(d9_tree_fail(reading->context, map,
                            "peak must be given, like {shape: cosine, peak: 0.4, warmup: 5}, or by --lr 0.4"));
    D9_TRY(allocate_points(reading, 3, schedule, &knots, &values));
    knots[2].unit = D9_KNOT_BEFORE_END;
    D9_TRY(read_real(reading, peak, &values[1]));
    if (warmup) D9_TRY(read_knot(reading, warmup, &knots[1]));
    D9_TRY(read_cosine_value(reading, d9_tree_find(map, "start"), values[1], &values[0]));
    D9_TRY(read_cosine_value(reading, d9_tree_find(map, "end"), values[1], &values[2]));
done:
    return status;
}

/* Reads knots and values, or with only `peak` those of the default; scales the values to `peak` if it is given. */
static d9_status read_knots(const reading *reading, const d9_tree *node, d9_schedule *read) {
    d9_status status = D9_OK;
    d9_context *context = reading->context;
    d9_tree *fallback;
    d9_knot *knot;
    double *value;
    int value_count;
    for (int i = 0; i < 3; i++)
        if (d9_tree_find(node, cosine_keys[i]))
            D9_TRY(d9_tree_fail(context, d9_tree_find(node, cosine_keys[i]), "needs shape: cosine"));
    const d9_tree *knots = d9_tree_find(node, "knots"), *values = d9_tree_find(node, "values"),
                  *peak = d9_tree_find(node, "peak");
    if (peak && !knots && !values) {
        const char *shape = reading->option->fallback;
        D9_TRY(d9_tree_parse(context, reading->arena, &node->place, shape, strlen(shape), &fallback));
        knots = d9_tree_find(fallback, "knots");
        values = d9_tree_find(fallback, "values");
    }
    if (!knots || !values) D9_TRY(d9_tree_fail(context, node, "%s must be given", knots ? "values" : "knots"));
    D9_TRY(allocate_points(reading, knots->count > values->count ? knots->count : values->count, read, &knot, &value));
    D9_TRY(read_list(reading, knots, "a list of knots, like [0, 20%, end-2]", read_knot, knot, sizeof *knot, INT_MAX,
                     &read->count));
    D9_TRY(read_list(reading, values, "a list of numbers, like [0, 0.5]", read_real, value, sizeof *value, INT_MAX,
                     &value_count));
    if (read->count != value_count)
        D9_TRY(d9_tree_fail(context, node, "%d values for %d knots; there must be one for each", value_count,
                            read->count)); /* reported at the map, because either list may be inherited */
    if (peak) D9_TRY(scale_to_peak(reading, peak, read, value));
done:
    return status;
}

static d9_status read_schedule(const reading *reading, const d9_tree *node, void *field) {
    d9_status status = D9_OK;
    d9_context *context = reading->context;
    d9_schedule read = {0};
    double number;
    int shape, at;
    if (node->kind == D9_TREE_SCALAR && d9_text_to_real(node->text, &number))
        D9_TRY(d9_tree_fail(context, node,
                            "needs a map; {peak: %s}, or --lr %s, keeps the schedule and sets its largest value",
                            node->text, node->text));
    if (node->kind != D9_TREE_MAP)
        D9_TRY(reject_type(context, node,
                           "a map like {knots: [0, 20%, end-2], values: [0, 1, 0.1]} or {shape: cosine, "
                           "peak: 0.4, warmup: 5}"));
    D9_TRY(d9_values_bind(context, NULL, node, NULL, 0, d9_schedule_keys));
    D9_TRY(read_word(reading, d9_tree_find(node, "shape"), "linear|cosine", &shape));
    D9_TRY(read_word(reading, d9_tree_find(node, "at"), "end|start", &at));
    read.shape = (d9_schedule_shape)shape;
    read.at_start = at == 1;
    D9_TRY(shape == D9_SCHEDULE_COSINE ? read_cosine(reading, node, &read) : read_knots(reading, node, &read));
    *(d9_schedule *)field = read;
done:
    return status;
}

static void write_cosine(const d9_schedule *schedule, d9_text *text) {
    d9_text_add(text, "{shape: cosine, peak: ");
    write_real(&schedule->values[1], text);
    d9_text_add(text, ", warmup: ");
    write_knot(&schedule->knots[1], text);
    d9_text_add(text, ", start: ");
    write_real(&schedule->values[0], text);
    d9_text_add(text, ", end: ");
    write_real(&schedule->values[2], text);
}

static void write_knots(const d9_schedule *schedule, d9_text *text) {
    d9_text_add(text, "{knots: ");
    write_list(schedule->knots, sizeof *schedule->knots, schedule->count, write_knot, text);
    d9_text_add(text, ", values: ");
    write_list(schedule->values, sizeof *schedule->values, schedule->count, write_real, text);
}

static void write_schedule(const void *field, d9_text *text) {
    const d9_schedule *schedule = field;
    if (schedule->shape == D9_SCHEDULE_COSINE)
        write_cosine(schedule, text);
    else
        write_knots(schedule, text);
    d9_text_add(text, schedule->at_start ? ", at: start}" : "}");
}

/* ---- any option ---- */

static const struct {
    reader *read;
    writer *write;
} types[] = {
    [D9_OPTION_BOOL] = {read_bool, write_bool},
    [D9_OPTION_INT] = {read_integer, write_integer},
    [D9_OPTION_REAL] = {read_real, write_real},
    [D9_OPTION_TEXT] = {read_text, write_text},
    [D9_OPTION_CHOICE] = {read_choice, NULL}, /* written by write_choice, which needs the option's words */
    [D9_OPTION_INTS] = {read_integers, write_integers},
    [D9_OPTION_REALS] = {read_reals, write_reals},
    [D9_OPTION_SCHEDULE] = {read_schedule, write_schedule},
};

/* Without a node, reads the default. The default "" of an optional value becomes NULL (a text), NaN (a number) or an
 * empty list. */
d9_status d9_value_read(d9_context *context, d9_arena *arena, const d9_option *option, const d9_tree *node,
                        void *base) {
    static const d9_place place = {.source = "default"};
    void *field = (char *)base + option->offset;
    const char *fallback = option->fallback;
    d9_tree *parsed;
    if (!node && !*fallback) {
        if (option->type == D9_OPTION_TEXT) *(const char **)field = NULL;
        if (option->type == D9_OPTION_REAL) *(double *)field = (double)NAN;
        if (option->type == D9_OPTION_INTS) ((d9_int_list *)field)->count = 0;
        if (option->type == D9_OPTION_REALS) ((d9_real_list *)field)->count = 0;
        return D9_OK;
    }
    if (!node) {
        d9_status status = d9_tree_parse(context, arena, &place, fallback, strlen(fallback), &parsed);
        if (status != D9_OK) return status;
        node = parsed;
    }
    return types[option->type].read(&(reading){context, arena, option}, node, field);
}

bool d9_value_write(const d9_option *option, const void *base, d9_text *text) {
    const void *field = (const char *)base + option->offset;
    if (option->type == D9_OPTION_REAL && isnan(*(const double *)field)) return false;
    if (option->type == D9_OPTION_TEXT && !*(const char *const *)field) return false;
    if (option->type == D9_OPTION_INTS && ((const d9_int_list *)field)->count == 0) return false;
    if (option->type == D9_OPTION_REALS && ((const d9_real_list *)field)->count == 0) return false;
    if (option->type == D9_OPTION_CHOICE)
        write_choice(option, *(const int *)field, text);
    else
        types[option->type].write(field, text);
    return true;
}

bool d9_value_is_default(const d9_option *option, const void *base, d9_text *text) {
    d9_status status;
    union {
        int64_t integer;
        double real;
        const char *text;
        d9_int_list integers;
        d9_real_list reals;
        d9_schedule schedule;
    } storage = {0}; /* space for a value of any type */
    d9_option stored = *option;
    d9_arena arena = {0};
    d9_text value, fallback;
    bool same = false;
    if (!option->fallback) return false;
    stored.offset = 0;
    d9_text_init(text->context, &value);
    d9_text_init(text->context, &fallback);
    D9_TRY(d9_value_read(text->context, &arena, &stored, NULL, &storage));
    same = d9_value_write(option, base, &value) == d9_value_write(&stored, &storage, &fallback) &&
           strcmp(d9_text_get(&value), d9_text_get(&fallback)) == 0;
    D9_TRY(d9_text_status(&value));
    D9_TRY(d9_text_status(&fallback));
done:
    d9_text_free(&value);
    d9_text_free(&fallback);
    d9_arena_free(text->context, &arena);
    if (text->status == D9_OK) text->status = status;
    return same;
}

/* ---- maps of options: every key must be known, and every option gets a value or its default ---- */

enum { WORDS_MAX = 64 };

bool d9_values_has_key(const d9_binding *bindings, int count, const char *const *others, const char *key) {
    for (int i = 0; i < count; i++)
        for (const d9_option *o = bindings[i].options; o && o->type != D9_OPTION_NONE; o++)
            if (strcmp(o->key, key) == 0) return true;
    for (; others && *others; others++)
        if (strcmp(*others, key) == 0) return true;
    return false;
}

static d9_status fail_unknown_key(d9_context *context, const d9_tree *node, const d9_binding *bindings, int count,
                                  const char *const *others) {
    const char *words[WORDS_MAX];
    int word_count = 0;
    for (int i = 0; i < count; i++)
        for (const d9_option *o = bindings[i].options; o && o->type != D9_OPTION_NONE && word_count < WORDS_MAX; o++)
            words[word_count++] = o->key;
    for (; others && *others && word_count < WORDS_MAX; others++) words[word_count++] = *others;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "unknown key; ");
    if (word_count == 0)
        d9_text_add(&text, "there are no options here");
    else
        d9_suggest(&text, "known:", node->key, words, word_count);
    return d9_tree_fail_text(context, node, &node->key_place, &text);
}

d9_status d9_values_bind(d9_context *context, d9_arena *arena, const d9_tree *map, const d9_binding *bindings,
                         int count, const char *const *others) {
    d9_status status = D9_OK;
    if (map->kind != D9_TREE_MAP) D9_TRY(reject_type(context, map, "a map of keys, like {key: value}"));
    for (const d9_tree *child = map->first; child; child = child->next)
        if (!d9_values_has_key(bindings, count, others, child->key))
            D9_TRY(fail_unknown_key(context, child, bindings, count, others));
    for (int i = 0; i < count; i++)
        for (const d9_option *option = bindings[i].options; option && option->type != D9_OPTION_NONE; option++) {
            const d9_tree *node = d9_tree_find(map, option->key);
            if (!node && !option->fallback) D9_TRY(d9_tree_fail(context, map, "%s must be given", option->key));
            D9_TRY(d9_value_read(context, arena, option, node, bindings[i].base));
        }
done:
    return status;
}
