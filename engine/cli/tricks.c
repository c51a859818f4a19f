/* dawn9 tricks: the list, or everything about one. */
#include "cli/commands.h"

typedef struct tricks_options {
    const char *name;
} tricks_options;

static const d9_flag flags[] = {
    {.name = "NAME",
     .type = D9_FLAG_OPTIONAL,
     .offset = offsetof(tricks_options, name),
     .doc = "one trick, in full"},
    {.type = D9_FLAG_END},
};

static d9_status unknown_trick(d9_cli *cli, const char *name) {
    const char *names[D9_TRICK_COUNT];
    for (int i = 0; i < D9_TRICK_COUNT; i++) names[i] = d9_trick_at(i)->name;
    const char *nearest = d9_text_nearest(name, names, D9_TRICK_COUNT);
    if (nearest)
        return d9_fail(&cli->context, D9_USAGE,
                       "unknown trick \"%s\"; did you mean %s? (dawn9 tricks lists them)", name, nearest);
    return d9_fail(&cli->context, D9_USAGE, "unknown trick \"%s\" (dawn9 tricks lists them)", name);
}

static void print_option(d9_cli *cli, const d9_option *option) {
    d9_cli_print(cli, "  %-20s %s", option->key, option->doc);
    if (option->choices) d9_cli_print(cli, "; one of %s", option->choices);
    if (option->minimum != 0 || option->maximum != 0)
        d9_cli_print(cli, "; %g to %g", option->minimum, option->maximum);
    if (option->fallback)
        d9_cli_print(cli, "; default %s\n", option->fallback);
    else
        d9_cli_print(cli, "; must be given\n");
}

static void print_trick(d9_cli *cli, const d9_trick *trick) {
    d9_cli_print(cli, "%s: %s\n", trick->name, trick->doc);
    if (trick->source) d9_cli_print(cli, "source:  %s\n", trick->source);
    if (trick->effect) d9_cli_print(cli, "effect:  %s\n", trick->effect);
    for (int i = 0; i < D9_MAX_CONFLICTS && trick->conflicts[i]; i++)
        d9_cli_print(cli, "%s %s%s", i ? "," : "conflicts with:", trick->conflicts[i],
                     i + 1 < D9_MAX_CONFLICTS && trick->conflicts[i + 1] ? "" : "\n");
    d9_cli_print(cli, "options:%s\n", trick->options && trick->options->key ? "" : " none");
    for (const d9_option *option = trick->options; option && option->key; option++) print_option(cli, option);
}

static d9_status run(d9_cli *cli, const void *options) {
    const tricks_options *chosen = options;
    if (chosen->name) {
        int index = d9_trick_index(chosen->name);
        if (index < 0) return unknown_trick(cli, chosen->name);
        print_trick(cli, d9_trick_at(index));
        return D9_OK;
    }
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        d9_cli_print(cli, "%-24s %s\n", d9_trick_at(i)->name, d9_trick_at(i)->doc);
    return D9_OK;
}

const d9_command d9_command_tricks = {
    .name = "tricks",
    .doc = "List the tricks, in the order in which they edit a run, or explain one",
    .flags = flags,
    .options_size = sizeof(tricks_options),
    .run = run,
};
